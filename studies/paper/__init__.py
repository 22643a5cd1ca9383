"""The paper row by row, as data: `rows` says what it states, `chains` which presets lead there,
`page` writes it.
"""
