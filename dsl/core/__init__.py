"""What all kernel languages share: values, the graph, shapes, diagnostics, and both front ends."""
