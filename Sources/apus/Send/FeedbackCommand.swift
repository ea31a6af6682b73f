import ApusClient
import ApusCommand
import ApusDirectory
import ApusLog
import ApusModel
import ApusWire

/// `apus feedback`
struct FeedbackCommand {
  let invocation: Invocation

  init(_ invocation: Invocation) { self.invocation = invocation }

  func run() async throws(CommandFailure) {
    let reader = try reader()
    while true {
      try await printList(reader)
      guard invocation.isOn(FeedbackOptions.follow) else { return }
      try? await Task.sleep(for: .seconds(invocation.value(FeedbackOptions.interval)))
    }
  }

  private func reader() throws(CommandFailure) -> FeedbackReader {
    let service = invocation.feedback
    let pem = try invocation.certificateAndKey(
      FeedbackOptions.certificate, FeedbackOptions.certificateKey)
    var configuration = FeedbackConfiguration(
      endpoint: Endpoint(host: service.host, port: service.port),
      trustRoots: try invocation.authority(FeedbackOptions.authority, of: service, .feedback)
        .map { .pem($0) } ?? .system,
      credential: .certificate(
        certificatePEM: Array(pem.certificate.utf8), keyPEM: Array(pem.key.utf8)))
    let seconds = invocation.value(FeedbackOptions.timeout)
    configuration.silenceTimeoutSeconds = seconds
    configuration.connectTimeoutSeconds = min(configuration.connectTimeoutSeconds, seconds)
    do throws(ClientConfigurationError) {
      return try FeedbackReader(configuration)
    } catch {
      throw CommandFailure(.configuration, "\(error)")
    }
  }

  private func printList(_ reader: FeedbackReader) async throws(CommandFailure) {
    do throws(FeedbackError) {
      print(try await reader.read())
    } catch {
      // The service may never send these entries again.
      print(error.entries)
      var failure = CommandFailure(.unavailable, "\(error)")
      if !invocation.isOn(FeedbackOptions.follow) { throw failure }
      failure.remedy = "The command will ask for the next list as usual."
      Output.diagnostic(failure.text(speaker: "apus feedback"))
    }
  }

  private func print(_ entries: [FeedbackEntry]) {
    for entry in entries {
      if invocation.isOn(ApusOptions.json) {
        Output.json(
          .members([
            "token": .string(entry.token), "time": .integer(entry.timeSeconds),
          ]))
      } else {
        Output.standard("\(Log.timestamp(entry.timeSeconds * 1000))  \(entry.token)\n")
      }
    }
  }
}
