import ApusClient
import ApusCommand
import ApusModel

/// What the answer to a push with a wrong device token says about the sender's credential.
struct DoctorVerdict {
  /// Nil where all is well.
  var code: ExitCode?
  var text: String
  var remedy = ""

  private init(_ code: ExitCode?, _ text: String, _ remedy: String = "") {
    (self.code, self.text, self.remedy) = (code, text, remedy)
  }

  init(_ outcome: SendOutcome, topic: String?) {
    switch outcome {
    case .accepted:
      self.init(nil, "the service takes the credential, and any device token: a stand-in for tests")
    case .rejected(let rejection): self = Self.verdict(rejection, topic)
    case .unknown(let cause, _):
      self.init(
        .unavailable, "there was no answer: \(cause)",
        "The way there is good, so the service gave the connection up: its log says more.")
    }
  }

  private static func verdict(_ rejection: PushRejection, _ topic: String?) -> DoctorVerdict {
    let answer = "\(rejection.status) \(rejection.reason)"
    let app = topic ?? "the topic"
    switch rejection.reason.known {
    case .badDeviceToken, .deviceTokenNotForTopic, .unregistered, .expiredToken, .missingTopic:
      return DoctorVerdict(
        nil,
        "the service takes the credential (a token of zeros is answered \(answer), as it should)")
    case .topicDisallowed, .badTopic:
      return DoctorVerdict(
        .failed, "the service takes the credential, but not for \(app): \(answer)",
        "Check --topic, and what the key or the certificate is for.")
    case .invalidProviderToken:
      return DoctorVerdict(
        .failed, "the service does not take the provider token: \(answer)",
        "Key, key id and team id do not belong together, the key was revoked, or it is not known there. "
          + "`apus token make` and `apus token check` show what is sent.")
    case .expiredProviderToken:
      return DoctorVerdict(
        .failed, "a token made just now is too old for the service: \(answer)",
        "This machine's clock is more than an hour behind, or the service's ahead: set it (NTP).")
    case .badEnvironmentKeyInToken, .badCertificateEnvironment:
      return DoctorVerdict(
        .failed, "the credential is for the other environment: \(answer)",
        "Send to the other host (apple and apple-sandbox), or use a key for both.")
    case .badCertificate, .forbidden, .missingProviderToken:
      return DoctorVerdict(
        .failed, "the service does not take the credential: \(answer)",
        "Give a key (--key, --key-id, --team) or a certificate that was issued for this service.")
    case .tooManyProviderTokenUpdates:
      return DoctorVerdict(
        .failed, "the service has seen too many tokens of this key: \(answer)",
        "Have all senders use one token for 20 minutes at least; wait as long now.")
    case .tooManyRequests, .serviceUnavailable, .internalServerError, .shutdown:
      return DoctorVerdict(
        .unavailable, "the service is in trouble: \(answer)", "Try again in a few minutes.")
    default:
      return DoctorVerdict(
        .failed, "the service answers \(answer)", "It is no answer of a push service to this.")
    }
  }
}
