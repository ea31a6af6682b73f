extension Verb {
  static let backupDescription = CommandDescription(
    name: "backup", summary: "copy the data directory, also while the service runs",
    details: [
      """
      Makes the folder TO with a consistent copy of the data directory: the store as of one moment, then keys, \
      certificates and all other files, and a list of them with their SHA-256. The folder has its name once it is \
      complete. It contains private keys: only its owner can read it.
      """,
      """
      Run it as the service's user, on its machine. If the service runs, it copies its store itself, which needs its \
      administration socket (--admin). Session tickets are not in the backup: devices then do a full handshake once.
      """,
    ], operands: "TO", operandCount: 1...1,
    examples: [
      ("A backup", "apus backup /var/backups/apus-2026-12-01"),
      ("Check it", "apus check --backup /var/backups/apus-2026-12-01"),
    ])

  static let restoreDescription = CommandDescription(
    name: "restore", summary: "put a backup into the data directory",
    details: [
      """
      FROM is a folder that `apus backup` made. The service must not run. Every file is compared with its SHA-256 \
      before anything is changed. What the directory had before stays in its folder replaced-SECONDS.
      """,
      """
      A backup does not know what happened since. All device tokens end, because it is unknown which died since or \
      were issued since: apps get new ones when they register. --keep-tokens keeps those of the backup. \
      Notifications that were delivered since can come again, and those accepted since are lost. Ids and tokens are \
      never issued twice.
      """,
      """
      If the directory still has a service, teams, apps and keys come from the backup, and everything that was revoked \
      or retired since stays so. Its authorities, server certificates, sealing keys, enrolment, administrators and \
      audit log are kept. In an empty directory nothing is known of the time since the backup: one-time codes are \
      withdrawn; revoke again what was revoked since.
      """,
      """
      Without FROM, a restore that was interrupted is finished.
      """,
    ], operands: "[FROM]", operandCount: 0...1,
    examples: [
      (
        "On a new machine",
        "apus restore --data /var/lib/apus /var/backups/apus-2026-12-01"
      )
    ])

  static let checkDescription = CommandDescription(
    name: "check", summary: "check a data directory or a backup, and change nothing",
    details: [
      """
      Checks the format, the files and their modes, the directory, the server's certificate and the free space, and \
      reads every record of the store. While the service runs its store is not read.
      """
    ],
    examples: [
      ("The data directory", "apus check --data /var/lib/apus"),
      ("A backup", "apus check --backup /var/backups/apus-2026-12-01"),
    ])
}
