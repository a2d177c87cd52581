"""The folder of results is made, or the user is told why not."""

import pytest

from penstock.core.errors import PenstockError
from penstock.core.output_folder import output_folder


def test_a_missing_folder_is_made_with_its_parents(tmp_path):
    assert output_folder(tmp_path / "a" / "b").is_dir()
    assert output_folder(tmp_path / "a" / "b").is_dir(), "a second time as well"


def test_a_file_in_the_way_is_told_in_one_sentence(tmp_path):
    (tmp_path / "a").write_text("")
    with pytest.raises(PenstockError, match=r"Cannot write to .*name another folder with --output"):
        output_folder(tmp_path / "a" / "b")
