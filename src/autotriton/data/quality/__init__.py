"""What is kept: twins and near twins removed, benchmarks kept out, graphs split between training and held-out."""
