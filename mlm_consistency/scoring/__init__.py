"""AT WHAT COST: packing, mesh, the one jitted step, the loop."""
