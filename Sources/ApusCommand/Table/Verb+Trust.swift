extension Verb {
  static let teamDescription = CommandDescription(
    name: "team", summary: "list the teams, or add one",
    details: [
      "A team owns apps and the keys that sign for them, as at Apple. A team cannot use what belongs to another."
    ],
    examples: [("Another team", "apus team --add Kitchen")])

  static let appDescription = CommandDescription(
    name: "app", summary: "list the apps, or add, change or remove one",
    details: [
      """
      An app is a bundle id. It includes the topics formed with a suffix, such as .voip. Revoke the keys that are \
      limited to an app before you remove it.
      """
    ],
    examples: [
      ("Another app", "apus app --add com.example.clock"),
      ("One of another team", "apus app --add com.example.clock --team TEAM123456"),
      ("Keep its newest five notifications", "apus app --change com.example.clock --retain 5"),
    ])

  static let keyDescription = CommandDescription(
    name: "key", summary: "list the provider keys, add or revoke one",
    details: [
      """
      A provider key signs the tokens that providers authenticate with. One without --topic covers every app of its \
      team; one with --topic covers only those apps. The private half of a key that is made here stays in the data \
      directory, where only its owner can read it; give it to the provider. The service itself reads the public half.
      """,
      """
      A key is replaced by adding another, letting the provider change over, and revoking the old one. Revocation is \
      permanent, and closes the connections that the key opened.
      """,
      """
      With the operand rotate: replaces what device tokens are sealed with, as `apus rotate sealing-key` does. Issued \
      tokens stay valid.
      """,
    ], operands: "[rotate]", operandCount: 0...1, operandWords: ["rotate"],
    examples: [
      ("Another key", "apus key --add"),
      (
        "One for a single app, in production",
        "apus key --add --topic com.example.app --environment production"
      ),
      ("One that the provider made", "apus key --add --public-key provider.pub"),
      ("One that got lost", "apus key --revoke ABC123DEFG"),
      ("Another key that device tokens are sealed with", "apus key rotate"),
    ])

  static let rotateDescription = CommandDescription(
    name: "rotate", summary: "replace a key or an authority of the service while it runs",
    details: [
      """
      WHAT is server (the service's own certificates), service-authority, device-authority, or sealing-key (what \
      device tokens are sealed with). What was issued stays valid: the old key still opens old tokens, and the old \
      authority still vouches for old certificates, until --finish removes it.
      """,
      """
      Clients that know only the older service authority go on as before: it has signed the newer one, and the service \
      presents that signature. Give clients the new authority file, then finish.
      """,
      """
      Devices that connect are told to ask for a certificate of the new authority at once, those of Apus' own dialect: \
      others need one from `apus device`. --finish counts the known devices that have none yet, and does nothing \
      without --force while there are any.
      """,
      """
      --authority takes one of your own as the next. No other authority vouches for it: give it to clients first. \
      Where its key stays elsewhere, `apus rotate server` makes requests for `apus cert --import`.
      """,
    ], operands: "WHAT", operandCount: 1...1,
    operandWords: ["server", "service-authority", "device-authority", "sealing-key"],
    examples: [
      ("A new certificate before the old one expires", "apus rotate server"),
      ("Another authority for devices", "apus rotate device-authority"),
      (
        "When every device has a certificate of the new one, or is given up",
        "apus rotate device-authority --finish"
      ),
    ])

  static let storeDescription = CommandDescription(
    name: "store", summary: "check the store of notifications, or go on after damage",
    details: [
      """
      Opens the store while the service does not run, and counts what waits in it. The service does not start with a \
      store that is damaged, cut off or missing: it would tell providers that tokens are dead, and lose what it has \
      accepted.
      """,
      """
      Restore a backup of the data directory where there is one. --accept-loss copies the damaged files, leaves out \
      what cannot be read, and prints what the engine says of that. Where nothing can be read, or the store is gone, \
      the next start makes a new one: devices then ask for new tokens, and providers learn of that from 410.
      """,
    ],
    examples: [
      ("Whether it is whole", "apus store"),
      ("Without what cannot be read", "apus store --accept-loss"),
    ])
}
