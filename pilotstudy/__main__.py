from pilotstudy.cli import main

main()
