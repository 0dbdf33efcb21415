"""The paper's section 5 for any model: one file for each figure and table, all run by `tram analyze`."""
