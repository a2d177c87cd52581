"""Code of pages and notebooks with its relative paths made absolute: Spark's JVM has a working folder of its own."""

import re


def in_folder(source, folder):
    """The code, with every text that is a relative path put under a folder.

    >>> in_folder('read("offers/a"), "127.0.0.1:0", "1 / 2", "run.jsonl"', "/x")
    'read("/x/offers/a"), "127.0.0.1:0", "1 / 2", "/x/run.jsonl"'
    """
    folders = re.sub(r'"([a-z][\w-]*/[\w/.{}-]*)"', rf'"{folder}/\1"', source)
    return re.sub(r'"([a-z][\w-]*\.(?:parquet|csv\.gz|jsonl|db))"', rf'"{folder}/\1"', folders)
