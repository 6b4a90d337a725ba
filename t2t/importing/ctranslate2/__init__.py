"""Models of CTranslate2 as runs."""
