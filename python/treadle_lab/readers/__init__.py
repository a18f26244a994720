"""What reads traces and estimates from them as the papers do."""
