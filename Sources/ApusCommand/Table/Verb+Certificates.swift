extension Verb {
  static let certDescription = CommandDescription(
    name: "cert", summary: "issue, import or revoke a certificate of a provider or a server",
    details: [
      """
      For providers that authenticate with a certificate instead of a key. It covers TOPIC and each extra topic; \
      the label says what the extra one is for, such as voip or complication.
      """,
      """
      Certificate and key are written to separate files and, for software that wants both in one, to a .pem file. \
      All three stay in the data directory; only their owner can read keys.
      """,
      """
      With --request the provider makes its own key. The request only proves possession of that key, which must have \
      signed it. Topics, team, environments and names come from these options. Only the certificate is printed and \
      stored.
      """,
      """
      If the authority's key is kept elsewhere, --csr-out makes the key and a request here. The request contains what \
      you asked for, as subject and as requested extensions. --import checks the certificate that the authority issued \
      for it and stores it beside its key. It also imports the service's own certificates (`apus init`, `apus rotate \
      server`).
      """,
      """
      A revoked certificate, of a provider or a device, is rejected within a second, and connections opened with it \
      are closed.
      """,
    ],
    examples: [
      ("A legacy sender (binary interface)", "apus cert --rsa 2048 --topic com.example.app"),
      (
        "A sender that checks names",
        "apus cert --rsa 2048 --common-name 'Apple Production IOS Push Services: com.example.app'"
      ),
      (
        "An app and its calls",
        "apus cert --topic com.example.app --extra-topic com.example.app.voip:voip"
      ),
      (
        "For a key that the provider made",
        "apus cert --topic com.example.app --request provider.csr"
      ),
      ("For a proxy in front", "apus cert --server proxy.example.com --request proxy.csr"),
      ("From an external authority", "apus cert --topic com.example.app --csr-out provider.csr"),
      ("Import the certificate it issued", "apus cert --import provider.crt"),
      ("After its key was lost", "apus cert --revoke provider.crt"),
    ])

  static let deviceDescription = CommandDescription(
    name: "device",
    summary: "list and show devices, name and tag them, issue certificates, retire devices",
    details: [
      """
      WHAT is list [TEXT], show DEVICE, add, set DEVICE, retire DEVICE..., pending, approve KEY... or reject KEY...; \
      without it, the devices are listed. DEVICE is the id or the name of a device. list and show ask the running \
      service; without one they show what is in the data directory. TEXT is looked for in names, tags and topics, and \
      at the beginning of ids.
      """,
      """
      add issues a certificate, which the device presents when it connects. The device's id is generated here; device \
      tokens refer to it. With --request the key is made elsewhere, and the rest of the request is ignored.
      """,
      """
      A device can also make its own key and ask the running service for a certificate, with or without a code from \
      `apus code`. Without a code it waits until you approve it here; KEY is the SHA-256 of its public key, which both \
      the device and pending show, or its first 8 digits or more. If the key of the device authority is not in the \
      data directory, devices with a code wait as well: have the authority sign the request file and give the \
      certificate with --certificate.
      """,
      """
      A retired device can no longer connect. Its tokens become invalid: providers learn of it from responses and from \
      the feedback service, and stored notifications are discarded. The entry is in directory.conf, which a running \
      service reloads when it changes.
      """,
    ], operands: "[WHAT ...]", operandCount: 0...10_000,
    operandWords: DeviceAction.allCases.map(\.rawValue),
    examples: [
      ("A device, with a name and a tag", "apus device add --name kitchen --tag floor=2"),
      ("What is known of it", "apus device show kitchen"),
      ("All devices of a floor", "apus device list --tag floor=2"),
      ("Another name", "apus device set kitchen --name hall --untag floor"),
      ("Approve a pending request", "apus device approve 1f2e3d4c"),
      ("After a device was lost", "apus device retire kitchen"),
    ])
}
