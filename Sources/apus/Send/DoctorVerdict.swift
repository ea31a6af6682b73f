import ApusClient
import ApusCommand
import ApusModel

/// What the response to a push with a wrong device token says about the provider's credential.
struct DoctorVerdict {
  /// Nil if all is well.
  var code: ExitCode?
  var text: String
  var remedy = ""

  private init(_ code: ExitCode?, _ text: String, _ remedy: String = "") {
    (self.code, self.text, self.remedy) = (code, text, remedy)
  }

  init(_ outcome: SendOutcome, topic: String?) {
    switch outcome {
    case .accepted:
      self.init(
        nil, "the service accepts the credential and any device token: a development service")
    case .rejected(let rejection): self = Self.verdict(rejection, topic)
    case .unknown(let cause, _):
      self.init(
        .unavailable, "no response: \(cause)",
        "The path works, so the service dropped the connection: see its log.")
    }
  }

  private static func verdict(_ rejection: PushRejection, _ topic: String?) -> DoctorVerdict {
    let answer = "\(rejection.status) \(rejection.reason)"
    let app = topic ?? "the topic"
    switch rejection.reason.known {
    case .badDeviceToken, .deviceTokenNotForTopic, .unregistered, .expiredToken, .missingTopic:
      return DoctorVerdict(
        nil,
        "the service accepts the credential (it answers \(answer) to a token of zeros, as it should)"
      )
    case .topicDisallowed, .badTopic:
      return DoctorVerdict(
        .failed, "the service accepts the credential, but not for \(app): \(answer)",
        "Check --topic, and which topics the key or certificate covers.")
    case .invalidProviderToken:
      return DoctorVerdict(
        .failed, "the service rejects the provider token: \(answer)",
        "Key, key id and team id do not belong together, or the key is unknown to the service or revoked. "
          + "`apus token make` and `apus token check` show what is sent.")
    case .expiredProviderToken:
      return DoctorVerdict(
        .failed, "a token made just now is too old for the service: \(answer)",
        "This machine's clock is over an hour behind, or the service's clock is ahead: use NTP.")
    case .badEnvironmentKeyInToken, .badCertificateEnvironment:
      return DoctorVerdict(
        .failed, "the credential is for the other environment: \(answer)",
        "Send to the other host (apple or apple-sandbox), or use a key for both.")
    case .badCertificate, .forbidden, .missingProviderToken:
      return DoctorVerdict(
        .failed, "the service rejects the credential: \(answer)",
        "Give a key (--key, --key-id, --team) or a certificate issued for this service.")
    case .tooManyProviderTokenUpdates:
      return DoctorVerdict(
        .failed, "the service has seen too many tokens of this key: \(answer)",
        "Let all providers use one token for at least 20 minutes; wait 20 minutes now.")
    case .tooManyRequests, .serviceUnavailable, .internalServerError, .shutdown:
      return DoctorVerdict(
        .unavailable, "the service has a problem: \(answer)", "Try again in a few minutes.")
    default:
      return DoctorVerdict(
        .failed, "unexpected response: \(answer)", "A push service does not respond like this.")
    }
  }
}
