import Testing

@testable import ApusCommand

@Suite("Help, completions and the manual page")
struct TextTests {
  private func help(_ name: String, columns: Int? = 80, isStyled: Bool = false) throws -> String {
    let command = try #require(Program.apus.command(name))
    return HelpText(program: .apus, columns: columns, isStyled: isStyled).text(for: command)
  }

  @Test("The help of a command")
  func snapshot() throws {
    #expect(
      try help("device") == """
        apus device: list and show devices, name and tag them, issue certificates,
        retire devices

        Usage: apus device [WHAT ...] [options]

        WHAT is list [TEXT], show DEVICE, add, set DEVICE, retire DEVICE..., pending,
        approve KEY... or reject KEY...; without it, the devices are listed. DEVICE is
        the id or the name of a device. list and show ask the running service; without
        one they show what is in the data directory. TEXT is looked for in names, tags
        and topics, and at the beginning of ids.

        add issues a certificate, which the device presents when it connects. The
        device's id is generated here; device tokens refer to it. With --request the key
        is made elsewhere, and the rest of the request is ignored.

        A device can also make its own key and ask the running service for a
        certificate, with or without a code from `apus code`. Without a code it waits
        until you approve it here; KEY is the SHA-256 of its public key, which both the
        device and pending show, or its first 8 digits or more. If the key of the device
        authority is not in the data directory, devices with a code wait as well: have
        the authority sign the request file and give the certificate with --certificate.

        A retired device can no longer connect. Its tokens become invalid: providers
        learn of it from responses and from the feedback service, and stored
        notifications are discarded. The entry is in directory.conf, which a running
        service reloads when it changes.

        What to change
          --no-name               With set: take the name away.
          --untag KEY             With set: take away the tag with this key. May be
                                  repeated.

        What to issue
          --name NAME             With add, set and approve: the name of the device,
                                  which no other device has.
          --tag TAG               With add, set and approve: a tag, KEY=VALUE or KEY, in
                                  place of another value of its key. With list: only
                                  devices with it; a key alone is any value. May be
                                  repeated.
          --rsa BITS              With add: make an RSA key of 2048, 3072 or 4096 bits.
                                  [default: an ECDSA key on P-256]
          --days N                With add and approve: days for which the certificate
                                  is valid. [default: 730]
          --request FILE          Certify the key of this request (PKCS#10). Names in
                                  the request are ignored.
          --csr-out FILE          Make a key and write a request for an external
                                  authority; issue nothing.

        Device
          --certificate FILE      With approve: the certificate, if the key of the
                                  device authority is kept elsewhere.

        Remote service
          --admin URL             Act on a remote service: https://HOST:PORT of its
                                  --admin-listen. [default: the data directory on this
                                  machine; APUS_ADMIN]
          --token-file FILE       A file with the token from `apus admin add`, readable
                                  only by its owner. [default: the token itself in
                                  APUS_ADMIN_TOKEN; APUS_ADMIN_TOKEN_FILE]
          --admin-authority FILE  The certificate of the authority that signed that
                                  service's. [default: authority/service.crt in the data
                                  directory, or else the system's authorities;
                                  APUS_ADMIN_AUTHORITY]

        General
          --data DIR              Where the service keeps its keys, certificates and
                                  notifications. [default: ./apus-data; APUS_DATA]
          --config FILE           A file of settings, one `key = value` on each line.
                                  [default: apus.conf in the data directory, if it
                                  exists; APUS_CONFIG]
          --json                  Print JSON on standard output, one object per line.

        Options with an upper-case name can be set as environment variables of that
        name, and in the configuration file as `name = value`, where the name is the
        variable's without APUS_, in lower case and with hyphens. A flag overrides the
        environment, and the environment overrides the file.

        Exit codes
          0  done
          1  the command failed: for example, a push was rejected or a file not written
          2  the command line, the environment or the configuration file has an error
          3  the service cannot be reached, or a port is taken
          4  the data directory, a key or a certificate is missing or unusable

        Examples
          A device, with a name and a tag:
            apus device add --name kitchen --tag floor=2

          What is known of it:
            apus device show kitchen

          All devices of a floor:
            apus device list --tag floor=2

          Another name:
            apus device set kitchen --name hall --untag floor

          Approve a pending request:
            apus device approve 1f2e3d4c

          After a device was lost:
            apus device retire kitchen

        """)
  }

  @Test("No line of help is wider than the terminal", arguments: [40, 60, 80, 100])
  func width(columns: Int) throws {
    for command in Program.apus.commands {
      let text = try help(command.name, columns: columns)
      // Examples break between options only, so that they can be pasted.
      let prose = text.split(separator: "\nExamples\n")[0]
      for line in prose.split(separator: "\n") {
        // An option and its value stay together.
        let isTerm = line.hasPrefix("  --") && !line.dropFirst(4).contains("  ")
        #expect(line.count <= columns || isTerm, "\(line)")
      }
    }
  }

  @Test("The width has bounds, and headings are bold only if requested")
  func style() throws {
    #expect(try help("serve", columns: 1) == help("serve", columns: 40))
    #expect(try help("serve", columns: 1000) == help("serve", columns: 100))
    #expect(try help("serve", columns: nil) == help("serve", columns: 80))
    #expect(try !help("serve").contains("\u{1b}"))
    #expect(try help("serve", isStyled: true).contains("\u{1b}[1mListeners\u{1b}[0m"))
  }

  @Test("Help and manual page explain each modifier and the risk of legacy TLS")
  func modifiers() throws {
    let help = try help("serve", columns: 100)
    let manual = ManualPage.text(for: .apus, version: "1.0")
    #expect(help.contains("\nModifiers\n  +legacy-tls  Speak TLS 1.0 and 1.1 as well"))
    for modifier in ListenModifier.allCases {
      #expect(help.contains("\n  \(modifier.text) "))
      #expect(
        manual.contains(
          "\n.B +\(modifier.rawValue.split(separator: "-").joined(separator: "\\-"))\n"))
    }
  }

  @Test("Completions offer a listener's default port with each modifier that it accepts")
  func completedModifiers() {
    let offered = Dictionary(
      uniqueKeysWithValues: Program.apus.options.filter { $0.group == .listeners }
        .map { ($0.flag, $0.completion) })
    #expect(offered["--http2-listen"] == .words(["off", "2197+proxy"]))
    #expect(
      offered["--feedback-development-listen"]
        == .words(["off", "2296+legacy-tls", "2296+proxy"]))
    #expect(
      offered["--gateway-listen"]
        == .words([
          "off", "2195+legacy-tls", "2195+confirm", "2195+strict", "2195+lenient", "2195+proxy",
        ]))
  }

  @Test("The overview lists every command and every exit code")
  func overview() {
    let text = HelpText(program: .apus, columns: 80, isStyled: false).overview()
    for verb in Verb.allCases { #expect(text.contains("\n  \(verb.rawValue) ")) }
    for code in ExitCode.allCases { #expect(text.contains("\n  \(code.rawValue)  ")) }
  }

  @Test("A command line in help breaks before its flags, and can be pasted")
  func shellLine() {
    #expect(
      TextLayout.shellLine("apus send --one a --two 'b c'", width: 24, indent: 2)
        == "  apus send --one a \\\n    --two 'b c'\n")
  }

  @Test(
    "Completions and the manual page name every flag of every command", arguments: Shell.allCases)
  func completeness(shell: Shell) {
    let completions = shell.completions(for: .apus)
    let manual = ManualPage.text(for: .apus, version: "1.0")
    for option in Program.apus.options {
      let flag = shell == .fish ? "-l \(option.flag.dropFirst(2)) " : option.flag
      #expect((completions + " ").contains(flag))
      #expect(manual.contains(option.flag.split(separator: "-").joined(separator: "\\-")))
    }
  }

  @Test("Completions offer the words that follow a command", arguments: Shell.allCases)
  func operandWords(shell: Shell) {
    let completions = shell.completions(for: .apus)
    for words in [
      "add list remove", "make check", "server service-authority device-authority sealing-key",
      "apple apple-sandbox", BenchVerb.allCases.map(\.rawValue).joined(separator: " "),
    ] {
      #expect(completions.contains(words), "\(words)")
    }
  }

  @Test("Help is in plain English", arguments: [Program.apus, .bench])
  func plainEnglish(program: Program) {
    let help = HelpText(program: program, columns: 100, isStyled: false)
    let texts = [help.overview()] + program.commands.map { help.text(for: $0) }
    for text in texts {
      let words = text.split { $0.isWhitespace || ",.;:()[]".contains($0) }.map { $0.lowercased() }
      let line = " " + words.joined(separator: " ") + " "
      for idiom in [
        "door", "doors", "whoever", "minted", "in clear", "in the clear", "no more", "any more",
        "let in", "stands in", "stand in", "stands", "for want of", "what becomes of",
        "what became of", "of before", "none is", "is none", "between commas", "nobody",
      ] {
        #expect(!line.contains(" \(idiom) "), "\(idiom): \(text.prefix(60))")
      }
    }
  }

  @Test("No text line of the manual page is a request")
  func manualRequests() {
    let known: Set = [
      ".TH", ".SH", ".SS", ".TP", ".PP", ".B", ".BR", ".I", ".RI", ".nf", ".fi", ".RS", ".RE",
    ]
    let manual = ManualPage.text(for: .apus, version: "1.0")
    for line in manual.split(separator: "\n") where line.hasPrefix(".") || line.hasPrefix("'") {
      #expect(known.contains(String(line.prefix { $0 != " " })), "\(line)")
    }
  }
}
