"""The pages of docs/reference, written from the code: settings, commands, metrics and reasons."""
