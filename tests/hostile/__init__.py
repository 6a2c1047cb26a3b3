"""Hostile input: odd files, options, graphs and faults, and what must hold whatever they are. A case is a number: the
same number makes the same case, everywhere. `sandbox` runs cases in a child that may crash, hang or eat memory;
`fuzz_cli`, `fuzz_readers` and `fuzz_estimators` make cases and judge what came of them; `specimens`, `mutations` and
`crafted` make the files, `graphs` what estimators are given. `python -m hostile` tries fresh cases. Nothing in here
mends anything.
"""
