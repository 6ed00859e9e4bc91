//! End of the help of every command line: how values are written, and the exit codes.

/// Section on values and exit codes.
pub const VALUES_AND_EXIT_CODES: &str = "\
Values:
  SIZE           bytes, or a number with a unit: k, m, g, t and kB, MB, GB, TB are powers of 1000,
                 KiB, MiB, GiB, TiB powers of 1024; 1.5GB and 1gib are fine
  TIME           2024-05-01T12:00:00Z, 2024-05-01, 20240501120000, or milliseconds since 1970
  AGE, DURATION  a number with a unit: ms, s, m (minutes), h, d, w, y

Exit codes: 0 done, 1 not found, 2 usage or I/O, 3 damage found or pages refused, 4 locked,
5 not all was done, 130 interrupted (143 by SIGTERM).";
