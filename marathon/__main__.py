"""python -m marathon"""

from marathon.cli.main import main

if __name__ == "__main__":
    main()
