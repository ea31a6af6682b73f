import Foundation
import Testing

@Suite("The listeners for legacy senders", .serialized)
struct ListenerOptionsTests {
  private static let others = [
    "--http2-listen", "off", "--http2-development-listen", "off", "--courier-listen", "off",
    "--courier-development-listen", "off",
  ]

  @Test(
    "Each address is announced under its listener, whatever its modifiers", .timeLimit(.minutes(30))
  )
  func announcement() throws {
    let installation = try Installation()
    let service = try Companion(
      installation.apus,
      ["serve", "--data", installation.directory.path, "--json", "--log-level", "error"]
        + Self.others + [
          "--gateway-listen", "127.0.0.1:0+confirm,127.0.0.1:0,127.0.0.1:0+lenient+confirm",
          "--gateway-development-listen", "127.0.0.1:0+strict", "--feedback-listen", "off",
          "--feedback-development-listen", "127.0.0.1:0,127.0.0.1:0",
        ], name: "apus serve")
    defer { service.stop() }
    let ready = try service.first("ready")
    let counts = [
      "http2", "http2_development", "courier", "courier_development", "gateway",
      "gateway_development", "feedback", "feedback_development",
    ].map { (ready[$0] as? [String])?.count }
    #expect(counts == [0, 0, 0, 0, 3, 1, 0, 2])
  }

  @Test("A listener presents the certificate that apus.conf names, and the doctor shows it")
  func serverCertificate() throws {
    let installation = try Installation()
    let base = installation.directory.appending(path: "server/server-rsa").path
    try "server-certificate = http2=\(base).crt:\(base).key, feedback=\(base).crt:\(base).key\n"
      .write(
        to: installation.directory.appending(path: "apus.conf"), atomically: true, encoding: .utf8)
    try installation.start()
    let own = installation.directory.appending(path: "server/server.crt").path
    for (port, file) in [
      (installation.providerPort, "\(base).crt"), (installation.gatewayPort, own),
      (installation.feedbackPort, "\(base).crt"),
    ] {
      // Both print `serial=`; the gateway and the feedback service want a certificate, and end the handshake after it.
      let script = """
        openssl s_client -connect 127.0.0.1:\(port) </dev/null 2>/dev/null | openssl x509 -noout -serial
        openssl x509 -noout -serial -in '\(file)'
        """
      let serials = try Programs.run(URL(filePath: "/bin/sh"), ["-c", script]).split(
        separator: "\n")
      #expect(serials.count == 2 && serials[0] == serials[1], "\(port): \(serials)")
    }
    let doctor = try Programs.attempt(["doctor", "--data", installation.directory.path], .both)
    #expect(doctor.code == 0, "\(doctor.text)")
    #expect(doctor.text.contains("http2 presents a certificate for localhost"), "\(doctor.text)")

    try FileManager.default.removeItem(atPath: "\(base).key")
    let broken = try Programs.attempt(["doctor", "--data", installation.directory.path], .both)
    #expect(broken.code == 4, "\(broken.text)")
    #expect(broken.text.contains("http2: cannot read \(base).key"), "\(broken.text)")
    installation.service?.stop()
    let start = try Programs.attempt(["serve", "--data", installation.directory.path], .both)
    #expect(start.code == 4, "\(start.text)")
    #expect(
      start.text.contains("--server-certificate: cannot read \(base).key: No such file"),
      "\(start.text)")
  }

  @Test("A proxy that is no address is an error")
  func proxy() throws {
    let installation = try Installation()
    let start = try Programs.attempt(
      ["serve", "--data", installation.directory.path, "--proxy-from", "10.0.0.7,2001:::1"], .both)
    #expect(start.code == 2, "\(start.text)")
    #expect(start.text.contains("--proxy-from: 2001:::1 is not an address"), "\(start.text)")
  }

  @Test("A listener with two certificates is an error")
  func twoCertificates() throws {
    let installation = try Installation()
    let start = try Programs.attempt(
      [
        "serve", "--data", installation.directory.path, "--server-certificate", "http2=a:b",
        "--server-certificate", "http2=c:d",
      ], .both)
    #expect(start.code == 2 && start.text.contains("http2 has two certificates"), "\(start.text)")
  }

  @Test("Two listeners on one address are rejected, and the error names both options")
  func collision() throws {
    let installation = try Installation()
    let trouble = #expect(throws: Trouble.self) {
      try Programs.run(
        URL(filePath: "/bin/sh"),
        [
          "-c", #"exec timeout 30 "$0" "$@" 2>&1"#, installation.apus.path, "serve", "--data",
          installation.directory.path, "--gateway-listen", "[::1]:9", "--feedback-listen",
          "127.0.0.1:9,[0:0::1]:9", "--gateway-development-listen", "off",
          "--feedback-development-listen", "off",
        ] + Self.others)
    }
    let text = trouble?.description ?? ""
    #expect(text.contains("ended with 2"))
    #expect(text.contains("--feedback-listen: [::1]:9 collides with [::1]:9 of --gateway-listen"))
  }
}
