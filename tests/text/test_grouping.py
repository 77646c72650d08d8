from cockpit.text.grouping import group_by


def test_groups_and_their_things_keep_the_order_in_which_they_came():
    assert list(group_by(["pear", "apple", "plum", "avocado"], lambda word: word[0]).items()) == [
        ("p", ["pear", "plum"]),
        ("a", ["apple", "avocado"]),
    ]
