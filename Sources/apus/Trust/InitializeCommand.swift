import ApusCommand
import ApusCore
import ApusDirectory
import ApusWire

/// `apus init`
struct InitializeCommand {
  let invocation: Invocation

  init(_ invocation: Invocation) { self.invocation = invocation }

  func run() throws(CommandFailure) {
    let path = invocation.value(ApusOptions.data)
    let authority = try OutsideAuthority(
      TrustOptions.serviceAuthority, TrustOptions.serviceAuthorityKey, invocation)
    let devices = try OutsideAuthority(
      TrustOptions.deviceAuthority, TrustOptions.deviceAuthorityKey, invocation)
    let authorityName = invocation[TrustOptions.authorityName]
    guard authority == nil || authorityName == nil else {
      throw invocation.failure(
        about: TrustOptions.authorityName, "it cannot be combined with --service-authority",
        remedy: "Your own authority has its name. Leave one of them out.")
    }
    let service: ProvisionedService
    do {
      service = try DataDirectory(path: path).initialize(
        names: names, topic: invocation.value(ApusOptions.firstTopic),
        teamName: invocation.value(ApusOptions.teamName), service: authority, devices: devices,
        authorityName: authorityName, nowSeconds: Process.nowSeconds)
    } catch {
      throw CommandFailure(.configuration, "\(error)")
    }
    Operator(invocation).record(.serviceInitialized, "service")
    let text = """
      Created a service in \(path). Clients reach it at \(service.names.joined(separator: ", ")).

      For the provider:
      \(table([
        "team": service.teamID.text, "key id": service.keyID.text, "key": service.keyFile,
        "topic": service.topic, "authority": service.authorityFile,
      ]))
      Next: \(requests(service))apus serve --data \(path)

      """
    Report(
      fields: [
        "team": .string(service.teamID.text), "key_id": .string(service.keyID.text),
        "key_file": .string(service.keyFile), "topic": .string(service.topic),
        "authority_file": .string(service.authorityFile),
        "device_authority_file": .string(service.deviceAuthorityFile),
        "request_files": service.requestFiles.isEmpty
          ? nil : .strings(service.requestFiles),
      ], text: text
    ).print(invocation)
  }

  /// The steps before the service has certificates; empty if it has them.
  private func requests(_ service: ProvisionedService) -> String {
    guard !service.requestFiles.isEmpty else { return "" }
    return "have the authority sign each of these requests, and import its certificate with\n"
      + "apus cert --data \(invocation.value(ApusOptions.data)) --import FILE\n"
      + service.requestFiles.map { "  \($0)\n" }.joined() + "Then: "
  }

  /// The given names, or else the local names and addresses and the machine's host name.
  private var names: [String] {
    let given = invocation.all(ApusOptions.name)
    if !given.isEmpty { return given }
    var names = ["localhost", "127.0.0.1", "::1"]
    if let host = Process.hostName, !names.contains(host), Self.isDNSName(host) {
      names.append(host)
    }
    return names
  }

  /// Whether a host name is valid in a certificate. A default that is not is left out.
  private static func isDNSName(_ name: String) -> Bool {
    let labels = name.split(separator: ".", omittingEmptySubsequences: false)
    return name.utf8.count <= 253 && !(labels.last ?? "").allSatisfy(\.isNumber)
      && labels.allSatisfy { label in
        1...63 ~= label.utf8.count && label.first != "-" && label.last != "-"
          && label.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "-") }
      }
  }
}

extension OutsideAuthority {
  /// Reads the files of two options; nil if they are not given.
  init?(
    _ certificates: Option<String>, _ key: Option<String>, _ invocation: Invocation
  ) throws(CommandFailure) {
    guard let path = invocation[certificates] else {
      guard !invocation.isGiven(key) else {
        throw invocation.failure(
          about: key, "it has no effect without \(certificates.description.flag)")
      }
      return nil
    }
    var keyPEM: String?
    if let path = invocation[key] {
      keyPEM = try Process.text(of: path, for: key, invocation)
    }
    self.init(
      certificatesPEM: try Process.text(of: path, for: certificates, invocation), keyPEM: keyPEM)
  }
}
