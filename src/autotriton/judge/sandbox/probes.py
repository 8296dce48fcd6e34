def main(control): pass
