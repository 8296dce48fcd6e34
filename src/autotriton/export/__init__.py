"""Export: a verified kernel as an installable package that registers it as a `torch.library` operator."""

from __future__ import annotations

from autotriton.export.package import export_package, package_name

__all__ = ["export_package", "package_name"]
