"""Reads the sections of a page as text."""

from __future__ import annotations


def text(cell):
    return cell if isinstance(cell, str) else "".join(piece for piece, _ in cell)


def section(page, key, view):
    return next(section for section in page.sections(view) if section.key == key)


def drawn(section, view):
    """The rows, each as words by the titles of their columns."""
    return [{column.title: text(column.cell(row, view)) for column in section.columns} for row in section.rows or ()]
