"""The papers of scheduling: their claims, figures and experiments beside ours."""
