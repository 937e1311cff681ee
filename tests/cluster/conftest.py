import pytest

from tests.support.nodes import TOKEN, Nodes


@pytest.fixture
def nodes(tmp_path):
    made = Nodes(tmp_path, TOKEN)
    yield made
    made.end()
