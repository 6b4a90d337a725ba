import pytest

from t2t.registry import RegistrationError, read_registrations
from tests.errors import refused


def test_reading_a_source_gives_file_and_line(tmp_path):
    path = tmp_path / "m.py"
    path.write_text("\n\n@register_thing\nclass NetA:\n    pass\n\n@other\n@register_thing('x')\ndef f(): ...\n")
    assert [(entry.name, entry.origin) for entry in read_registrations(path, "register_thing")] == [
        ("net_a", f"{path}:3"), ("x", f"{path}:7"),
    ]  # fmt: skip


@pytest.mark.parametrize(("decorator", "name"), [
    ("@register_thing", "my_net"),
    ("@register_thing()", "my_net"),
    ("@register_thing('other')", "other"),
    ("@register_thing(name='other')", "other"),
    ("@somewhere.register_thing(name='other')", "other"),
    ("@somewhere.register_thing", "my_net"),
])  # fmt: skip
def test_a_name_is_read_however_the_decorator_is_called(tmp_path, decorator, name):
    path = tmp_path / "m.py"
    path.write_text(f"{decorator}\nclass MyNet:\n    pass\n")
    assert [entry.name for entry in read_registrations(path, "register_thing")] == [name]


def test_a_name_that_only_running_could_tell_is_refused(tmp_path):
    path = tmp_path / "m.py"
    path.write_text("@register_thing(PREFIX + 'net')\nclass MyNet:\n    pass\n")
    with refused(f"{path}:1", "PREFIX", by=RegistrationError):
        read_registrations(path, "register_thing")
