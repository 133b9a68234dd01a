def pytest_addoption(parser):
    parser.addoption("--update-golden", action="store_true", help="write the golden files of the operator anew")
