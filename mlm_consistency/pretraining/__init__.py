"""The small model that ships: stories, vocabulary, denoisers and the training loop."""
