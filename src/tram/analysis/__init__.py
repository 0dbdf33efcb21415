"""The analyses of the paper's section 5 for any model: one file per figure or table, all run by `tram analyze`."""
