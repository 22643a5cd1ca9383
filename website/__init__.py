"""Hooks of mkdocs.yml, which build the documentation site from docs/ and the settings: `make
site`.
"""
