"""The one owner of files: nobody else opens, writes or renames anything of a task."""
