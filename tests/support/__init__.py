"""What tests of several rooms share."""

import pytest

# So that a promise that does not hold shows what it was held against.
pytest.register_assert_rewrite("tests.support.promises", "tests.support.way")
