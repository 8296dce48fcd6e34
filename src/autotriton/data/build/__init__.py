"""A data set out of one config: gather, select, propose, verify, finish; each stage resumable, all in one folder."""
