"""The one owner of files: no other room opens, writes or renames anything of a task."""
