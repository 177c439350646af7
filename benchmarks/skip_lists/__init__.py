"""The paper's skip lists, alone and in a join."""
