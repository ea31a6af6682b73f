extension Verb {
  static let certDescription = CommandDescription(
    name: "cert", summary: "issue a certificate to a provider or a server, import or revoke one",
    details: [
      """
      For providers that authenticate with a certificate instead of a key. It covers TOPIC and each extra topic; \
      the label says what the extra one is for, such as voip or complication.
      """,
      """
      Certificate and key are written to files of their own and, for software that wants both in one, as a .pem file. \
      All three stay in the data directory; only their owner can read keys.
      """,
      """
      With --request the provider makes its key itself. The request only proves possession of its key, with which it \
      must be signed. Topics, team, environments and names are taken from these options. Only the certificate is \
      printed and kept.
      """,
      """
      Where the authority's key is kept elsewhere, --csr-out makes key and request here. The request names what was \
      asked for, as subject and as requested extensions; --import checks what the authority made of it, and puts it \
      beside its key, also where it is one of the service's own (`apus init`, `apus rotate server`).
      """,
      """
      A revoked certificate, of a provider or a device, is rejected within a second, and connections opened with it \
      are closed.
      """,
    ],
    examples: [
      ("A sender that speaks the binary interface", "apus cert --rsa 2048 --topic com.example.app"),
      (
        "An app and its calls",
        "apus cert --topic com.example.app --extra-topic com.example.app.voip:voip"
      ),
      (
        "For a key that the provider made", "apus cert --topic com.example.app --request sender.csr"
      ),
      ("For a proxy in front", "apus cert --server proxy.example.com --request proxy.csr"),
      ("By an authority elsewhere", "apus cert --topic com.example.app --csr-out sender.csr"),
      ("What it made of that", "apus cert --import sender.crt"),
      ("One that got lost", "apus cert --revoke sender.crt"),
    ])

  static let deviceDescription = CommandDescription(
    name: "device",
    summary: "issue a device certificate, decide on a pending request, or retire a device",
    details: [
      """
      The device presents the certificate when it connects. Its id is generated here; device tokens refer to it. With \
      --request its key is made elsewhere, and the rest of the request is ignored.
      """,
      """
      A device can also make its key itself and ask the running service for a certificate, with a code from `apus \
      code` or without. One without waits until it is approved here; KEY is the SHA-256 of its public key, which both \
      the device and --pending show. Where the key of the devices' authority is not in the data directory, \
      those with a code wait as well: have the authority sign the request's file and give the certificate with \
      --certificate.
      """,
      """
      A retired device can no longer connect. Its tokens are dead from that time on: providers learn of it from \
      responses and from the feedback service, and notifications waiting for it are discarded. The entry is in \
      directory.conf, which a running service reloads when it changes.
      """,
    ],
    examples: [
      ("A device", "apus device --name kitchen-display"),
      ("One whose software wants RSA", "apus device --rsa 2048"),
      ("One that asks for a certificate", "apus device --approve 1f2e3d4c"),
      ("One that was lost", "apus device --retire 0123456789abcdef"),
    ])
}
