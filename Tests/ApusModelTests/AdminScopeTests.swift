import ApusModel
import Testing

@Suite("Scopes of administrators")
struct AdminScopeTests {
  @Test(
    "A list is read and written by names",
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

  @Test("What is no list of names is refused", arguments: ["", ",", "all", "read,rite", "Read"])
  func bad(text: String) {
    #expect(AdminScopes(text: text) == nil)
  }

  @Test(
    "Who may change something may see it; nothing else is implied",
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
