"""What a data set is made of: one TOML file. A folder belongs to one config; workers and devices are not part of it."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from autotriton.configs import Part
from autotriton.data.synth.recipes import BY_NAME
from autotriton.data.synth.sizes import Scale
from autotriton.propose.compiler.templates.options import WAYS
from autotriton.types import Policy, Tier


class SynthPart(Part):
    count: int = Field(default=0, ge=0)
    """Programs drawn."""
    seed: int = Field(default=0, ge=0)
    scale: Scale = "laptop"
    recipes: tuple[str, ...] = ()
    """Only these compositions, each as often as the others (one named twice twice as often); empty: all of them, by
    their weights.
    """
    configured: float = Field(default=0.0, ge=0, le=1)
    """Share of the modules whose constructors take what layers and reductions may be told, most of it by default."""

    @model_validator(mode="after")
    def _known_recipes(self) -> Self:
        if unknown := [name for name in self.recipes if name not in BY_NAME]:
            raise ValueError(f"recipes: {unknown[0]!r} is unknown; known: {', '.join(BY_NAME)}")
        return self


class OpinfoPart(Part):
    per_operator: int = Field(default=0, ge=0)
    """Samples of each operator and type; 0 leaves the database out."""
    dtypes: tuple[str, ...] = ("float32",)
    only: tuple[str, ...] = ()


class HarvestPart(Part):
    folders: tuple[str, ...] = ()
    """Packages on disk."""
    endpoint: str = ""
    """`URL#MODEL` of a server that writes missing inputs; empty: they are guessed."""


class WrappersPart(Part):
    """Functions of a given name and signature that come with an answer."""

    count: int = Field(default=0, ge=0)
    seed: int = Field(default=0, ge=0)


class RowsPart(Part):
    """The tasks of a data set that is there, to be answered in another way."""

    folder: str = ""
    """A build's folder, or the data set in it."""
    families: tuple[str, ...] = ()
    """Only tasks led by one of these operator families; empty: all."""


class GatherPart(Part):
    deadline_s: float = Field(default=30.0, gt=0)
    max_runs: int = Field(default=48, ge=4)


class SelectPart(Part):
    decontaminate: bool = True
    """Refuse to go on without benchmarks to keep out (`--against`)."""
    near: float = Field(default=0.95, gt=0, le=1)
    """Likeness of texts from which tasks count as twins."""
    per_graph: int = Field(default=8, ge=1)
    """Most tasks of one program at other sizes."""
    family_share: float = Field(default=0.35, gt=0, le=1)
    """Most of any one operator family, in each of the three files."""
    held_out: float = Field(default=0.05, ge=0, lt=1)
    """Share of the graphs that is held out."""
    rl_easy: float = Field(default=0.1, ge=0, le=1)
    rl_medium: float = Field(default=0.3, ge=0, le=1)
    rl_hard: float = Field(default=0.65, ge=0, le=1)
    """Share of the other tasks, by difficulty, that only asks and never teaches."""


class LanguageModelPart(Part):
    """A language model that writes answers as well: `url` and `model` of a server, or `path` of a checkpoint."""

    share: float = Field(default=0.0, ge=0, le=1)
    """Share of the teaching tasks it is asked about."""
    url: str = ""
    model: str = ""
    path: str = ""
    samples: int = Field(default=4, ge=1)
    turns: int = Field(default=1, ge=1)
    """Above 1, refused answers go back with the verdict."""
    temperature: float = Field(default=0.7, ge=0, le=2)
    max_tokens: int = Field(default=4096, ge=1)
    timeout_s: float = Field(default=600.0, gt=0)
    template: str = ""
    refine_template: str = ""


class ProposePart(Part):
    inductor_share: float = Field(default=0.0, ge=0, le=1)
    """Share of the teaching tasks Inductor's kernels are taken for as well."""
    deadline_s: float = Field(default=60.0, gt=0)
    way: str = ""
    """How the templates write: the engine's own choices, or a variant by its name (`in_kernel`, `looped`, ...)."""
    forms: int = Field(default=2, ge=1)
    """Forms of each of the templates' programs: names, layout, tiles."""
    prose: float = Field(default=0.25, ge=0, le=1)
    """Share of the questions put as a description instead of a program, where the description says enough."""
    distil: LanguageModelPart = LanguageModelPart()
    own: LanguageModelPart = LanguageModelPart()

    @model_validator(mode="after")
    def _named(self) -> Self:
        if self.way not in WAYS:
            raise ValueError(f"way: {self.way!r} is unknown; known: {', '.join(name for name in WAYS if name)}")
        if self.distil.share and not (self.distil.url and self.distil.model):
            raise ValueError("distil.share needs distil.url and distil.model")
        if self.own.share and not self.own.path:
            raise ValueError("own.share needs own.path")
        return self


class VerifyPart(Part):
    policy: Policy = Policy.STRICT
    tier: Literal[Tier.INTERPRET, Tier.COMPILE, Tier.RUN] = Tier.RUN
    """`run` is the GPU where there is one, else the interpreter and cross-compilation."""
    cases: int = Field(default=8, ge=1)
    timeout_s: float = Field(default=60.0, gt=0)
    targets: tuple[str, ...] = ("sm_90",)


class FinishPart(Part):
    pairs: int = Field(ge=1)
    """Most rows that teach."""
    rl: int = Field(ge=0)
    held_out: int = Field(ge=0)
    near: float = Field(default=0.95, gt=0, le=1)
    """Likeness from which two pairs count as one."""
    longest: int = Field(default=24_000, ge=1)
    """Characters of question and answer together; longer pairs are left out."""


class BuildConfig(Part):
    name: str
    seed: int = Field(default=0, ge=0, lt=2**31)
    synth: SynthPart = SynthPart()
    opinfo: OpinfoPart = OpinfoPart()
    harvest: HarvestPart = HarvestPart()
    wrappers: WrappersPart = WrappersPart()
    rows: RowsPart = RowsPart()
    gather: GatherPart = GatherPart()
    select: SelectPart = SelectPart()
    propose: ProposePart = ProposePart()
    verify: VerifyPart = VerifyPart()
    finish: FinishPart

    @model_validator(mode="after")
    def _gathers_something(self) -> Self:
        counts = self.synth.count, self.opinfo.per_operator, self.wrappers.count
        if not any((*counts, self.harvest.folders, self.rows.folder)):
            known = "synth.count, opinfo.per_operator, harvest.folders, wrappers.count or rows.folder"
            raise ValueError(f"nothing to gather: set {known}")
        if self.verify.policy is not Policy.STRICT:
            raise ValueError('verify.policy: only "strict" makes data: torch must not compute in an answer')
        return self
