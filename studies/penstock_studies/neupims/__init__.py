"""NeuPIMs (ASPLOS 2024): attention beside banks with two row buffers, under another half of the batch."""
