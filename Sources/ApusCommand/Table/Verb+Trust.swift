extension Verb {
  static let teamDescription = CommandDescription(
    name: "team", summary: "list the teams, or add one",
    details: [
      "A team owns apps and the keys that sign for them, as at Apple. It cannot use those of another team."
    ],
    examples: [("Another team", "apus team --add Kitchen")])

  static let appDescription = CommandDescription(
    name: "app", summary: "list the apps, or add, change or remove one",
    details: [
      """
      An app is a bundle id. It includes the topics formed with a suffix, such as .voip. Before you remove an app, \
      revoke the keys that are limited to it.
      """,
      """
      With an upstream, pushes to device tokens that this service did not issue go on to Apple, or to another service \
      that speaks the HTTP/2 provider API. The service authenticates there with a provider key or a certificate, of \
      which it keeps a copy in the data directory. With --change, each option changes what it names and nothing else.
      """,
    ],
    examples: [
      ("Another app", "apus app --add com.example.clock"),
      ("An app of another team", "apus app --add com.example.clock --team TEAM123456"),
      ("Keep its newest five notifications", "apus app --change com.example.clock --retain 5"),
      (
        "Send to Apple what has Apple's device tokens",
        "apus app --change com.example.clock --upstream apple --upstream-key AuthKey_ABC123DEFG.p8 "
          + "--upstream-team DEF123GHIJ"
      ),
      ("No longer", "apus app --change com.example.clock --upstream none"),
    ])

  static let keyDescription = CommandDescription(
    name: "key", summary: "list the provider keys, add or revoke one",
    details: [
      """
      A provider key signs the tokens that providers authenticate with. Without --topic it covers every app of its \
      team, with --topic only those apps. The private half of a key made here stays in the data directory, where only \
      its owner can read it; give it to the provider. The service itself reads the public half.
      """,
      """
      To replace a key, add another, switch the provider over, and revoke the old one. Revocation is permanent and \
      closes the connections that the key opened.
      """,
      """
      `apus key rotate` replaces the key that device tokens are sealed with, as `apus rotate sealing-key` does. Issued \
      tokens stay valid.
      """,
    ], operands: "[rotate]", operandCount: 0...1, operandWords: ["rotate"],
    examples: [
      ("Another key", "apus key --add"),
      (
        "A key for a single app, in production",
        "apus key --add --topic com.example.app --environment production"
      ),
      ("A key that the provider made", "apus key --add --public-key provider.pub"),
      ("After a key was lost", "apus key --revoke ABC123DEFG"),
      ("A new sealing key for device tokens", "apus key rotate"),
    ])

  static let rotateDescription = CommandDescription(
    name: "rotate", summary: "replace a key or an authority of the service while it runs",
    details: [
      """
      WHAT is server (the service's own certificates), service-authority, device-authority, or sealing-key (the key \
      that device tokens are sealed with). Issued tokens and certificates stay valid: the old key still opens old \
      tokens, and the old authority stays trusted until --finish removes it.
      """,
      """
      Clients that know only the older service authority can still connect: it has signed the newer one, and the \
      service presents that signature. Give clients the new authority file, then use --finish.
      """,
      """
      When a device connects, the service tells it to request a certificate of the new authority. Only devices that \
      speak Apus' own dialect can do this; others need one from `apus device add`. --finish counts the known devices \
      that have none yet; if there are any, it does nothing without --force.
      """,
      """
      --authority makes your own authority the next one. No other authority has signed it: give it to clients first. \
      If its key stays elsewhere, `apus rotate server` makes requests for `apus cert --import`.
      """,
    ], operands: "WHAT", operandCount: 1...1,
    operandWords: ["server", "service-authority", "device-authority", "sealing-key"],
    examples: [
      ("A new certificate before the old one expires", "apus rotate server"),
      ("Another authority for devices", "apus rotate device-authority"),
      (
        "Once every device that matters has a new certificate",
        "apus rotate device-authority --finish"
      ),
    ])

  static let storeDescription = CommandDescription(
    name: "store", summary: "check the store of notifications, repair it with loss, or move it",
    details: [
      """
      Opens the store while the service does not run, and counts the notifications in it. The service does not start \
      with a damaged, truncated or missing store: it would report valid tokens as invalid and lose accepted \
      notifications.
      """,
      """
      If you have a backup of the data directory, restore it. Otherwise --accept-loss copies the damaged files, leaves \
      out what cannot be read, and prints the engine's messages. If nothing can be read, or the store is missing, the \
      next start makes a new one: devices then ask for new tokens, and providers get 410 for the old ones.
      """,
      """
      A service refuses a database that lacks writes that it had acknowledged, as after a restore or the promotion of \
      a standby that was behind. Bring the right one back, or continue with what it has: --accept-loss ends all device \
      tokens, because it is unknown which died or were issued since (--keep-tokens keeps them).
      """,
      """
      `copy FROM TO` moves everything that the service stores between the store in the data directory, which is called \
      `embedded`, and a PostgreSQL database, in either direction. It compares what it has copied, and only then does \
      the data directory use TO. FROM is kept, and no service uses it again. `schema` prints the tables and \
      statements for PostgreSQL.
      """,
    ], operands: "[copy FROM TO | schema]", operandCount: 0...3, operandWords: ["copy", "schema"],
    examples: [
      ("Check the store", "apus store"),
      ("Continue without what cannot be read", "apus store --accept-loss"),
      ("Move to a database", "apus store copy embedded postgresql://apus@db1,db2/apus"),
    ])
}
