"""Trainings by SQL: functions in a PostgreSQL server with MADlib's names, which hand rows to a worker of this interpreter."""
