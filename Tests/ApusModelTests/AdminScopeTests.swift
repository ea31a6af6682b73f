import ApusModel
import Testing

@Suite("Administration scopes")
struct AdminScopeTests {
  @Test(
    "A list is read and written by the names of its scopes",
    arguments: [
      ("read", AdminScopes.read, "read"),
      ("trust,read", [.read, .trust], "read,trust"),
      ("operate send", [.send, .operate], "send,operate"),
      ("read,send,operate,trust", .all, "read,send,operate,trust"),
    ] as [(String, AdminScopes, String)])
  func names(text: String, scopes: AdminScopes, written: String) {
    #expect(AdminScopes(text: text) == scopes)
    #expect(scopes.text == written)
  }

  @Test(
    "A text that is not a list of names is rejected",
    arguments: ["", ",", "all", "read,rite", "Read"])
  func bad(text: String) {
    #expect(AdminScopes(text: text) == nil)
  }

  @Test(
    "Permission to change implies permission to read, and nothing else is implied",
    arguments: [
      (AdminScopes.read, AdminScopes.read),
      (.send, .send),
      (.operate, [.read, .operate]),
      (.trust, [.read, .trust]),
      ([.send, .trust], [.read, .send, .trust]),
      (.all, .all),
      ([], []),
    ] as [(AdminScopes, AdminScopes)])
  func implied(given: AdminScopes, effective: AdminScopes) {
    #expect(given.effective == effective)
  }
}
