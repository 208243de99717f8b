"""Maps of other papers, as functions of attention weights, values and blocks."""
