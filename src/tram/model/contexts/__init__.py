"""Context modules: everything that lets one sentence know about another."""
