import ApusCore
import ApusDirectory
import ApusHTTP2
import ApusModel
import ApusTrust

extension HTTP2Provider {
  /// Holds a provider token that this connection has not had yet against its key.
  func verify(_ request: HTTP2Request, _ range: Range<Int>) -> Authentication {
    let text = request.value(.authorization).extracting(range)
    let trust = worker.trust
    do {
      let token = try ProviderToken.parse(text)
      guard let keyID = ShortID(token.keyID), let issuer = ShortID(token.teamID) else {
        return sender.verificationFailed(.malformed)
      }
      let key = try trust.directory.verificationKey(keyID, issuer: issuer)
      guard trust.verifiers[key.index].verifies(token, in: text) else {
        return .refused(Refusal(.signature(key: keyID, issuer: issuer)))
      }
      return sender.verified(
        VerifiedToken(keyID: keyID, issuer: issuer, issuedAtSeconds: token.issuedAt),
        fields: request.fields, directory: trust.directory, nowSeconds: worker.wallSeconds)
    } catch let refusal as Refusal {
      return .refused(refusal)
    } catch let fault as ProviderTokenFault {
      return sender.verificationFailed(fault.kind)
    } catch {
      return sender.verificationFailed(.malformed)
    }
  }
}
