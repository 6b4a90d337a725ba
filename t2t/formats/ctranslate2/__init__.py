"""Imports models of CTranslate2."""
