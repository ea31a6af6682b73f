import Foundation
import Testing

@Suite("apus channel, and curl as a provider that manages channels", .timeLimit(.minutes(5)))
struct ChannelCommandTests {
  /// Repeats a command until the service knows of a change of the directory.
  private func eventually(
    _ command: String, in installation: Installation
  ) throws -> (code: Int32, text: String) {
    for _ in 0..<50 {
      let said = try shell(command, in: installation)
      if said.code == 0 { return said }
      usleep(200_000)
    }
    return try shell(command, in: installation)
  }

  @Test("The operator creates, lists, shows and deletes channels of the running service")
  func operates() throws {
    let installation = try Installation()
    let off = try shell(#""$0" channel --data ."#, in: installation)
    #expect(off.code == 3, "\(off)")
    try installation.start()
    let create = #""$0" channel create --data . --topic com.example.app"#
    let refused = try shell(create, in: installation)
    #expect(refused.code == 4 && refused.text.contains("--broadcast on"), "\(refused)")
    #expect(try shell(#""$0" channel --data ."#, in: installation).text == "None.")

    let on = try shell(
      #""$0" app --data . --change com.example.app --broadcast on"#, in: installation)
    #expect(on.code == 0 && on.text == "The app com.example.app may have channels now.", "\(on)")
    let made = try eventually(create, in: installation)
    let id = made.text
    #expect(made.code == 0 && Data(base64Encoded: id)?.count == 16, "\(made)")
    let other = try shell(
      create + " --environment development --storage none --json", in: installation)
    let object = try Programs.json(other.text)
    #expect(object["storage"] as? String == "none", "\(other)")
    #expect(object["environment"] as? String == "development")

    let all = try shell(#""$0" channel --data ."#, in: installation).text.split(separator: "\n")
    #expect(all.count == 2 && all[0].hasPrefix("\(id)  com.example.app  production  newest  20"))
    let development = try shell(
      #""$0" channel list --data . --environment development --topic com.example.app --json"#,
      in: installation)
    #expect(development.text.contains(object["channel"] as? String ?? "?"), "\(development)")
    #expect(!development.text.contains(id))
    let shown = try shell("\"$0\" channel show \(id) --data .", in: installation)
    #expect(shown.code == 0 && shown.text.contains("newest"), "\(shown)")
    let deleted = try shell("\"$0\" channel delete \(id) --data .", in: installation)
    #expect(deleted.code == 0 && deleted.text == "Deleted the channel \(id).", "\(deleted)")
    let gone = try shell("\"$0\" channel show \(id) --data .", in: installation)
    #expect(gone.code == 4 && gone.text.contains("does not exist"), "\(gone)")
    let audit = try String(
      contentsOf: installation.directory.appending(path: "audit.jsonl"), encoding: .utf8)
    #expect(audit.contains("\"channel.created\"") && audit.contains("\"channel.deleted\""))
  }

  @Test("apus listen subscribes to a channel and shows what apus send broadcasts")
  func listens() throws {
    let installation = try Installation()
    #expect(
      try shell(
        #""$0" app --data . --change com.example.app --broadcast on"#, in: installation
      ).code == 0)
    try installation.start()
    let id = try shell(
      #""$0" channel create --data . --topic com.example.app"#, in: installation
    ).text
    let options = ["--topic", Installation.topic, "--channel", id]
    let listener = try installation.device("phone").listen(options)
    defer { listener.stop() }
    let subscribed = try listener.first("subscribed")
    let topic = Installation.topic + ".push-type.liveactivity"
    #expect(subscribed["channel"] as? String == id && subscribed["topic"] as? String == topic)

    let payload = #"{"aps":{"timestamp":1700000000,"event":"update","content-state":{}},"n":7}"#
    let sent = try shell(
      "\"$0\" send --data . --to localhost:\(installation.providerPort) --topic com.example.app "
        + "--channel \(id) --expiration 4000000000 --payload '\(payload)'",
      in: installation)
    #expect(sent.code == 0, "\(sent)")
    let notification = try listener.first("notification")
    #expect(notification["channel"] as? String == id)
    #expect(notification["topic"] as? String == topic)
    #expect((notification["payload"] as? [String: Any])?["n"] as? Int == 7)
    #expect(listener.all("token").count == 1, "a channel needs no token")

    let device = try Programs.json(
      Programs.run(
        installation.apus, ["device", "add", "--data", installation.directory.path, "--json"]))
    let files = try ["certificate_file", "key_file"].map { try #require(device[$0] as? String) }
    let listen =
      "\"$0\" listen --data . --to localhost:\(installation.courierPort) --channel \(id) --count 1 "
      + "--certificate '\(files[0])' --key '\(files[1])'"
    let text = try shell(listen, in: installation)
    #expect(text.code == 0, "\(text)")
    #expect(text.text.contains("\(id)  subscribed") && text.text.contains("channel \(id)"))
    let unknown = try shell(
      listen.replacing(id, with: "AAAAAAAAAAAAAAAAAAAAAA=="), in: installation)
    #expect(unknown.code == 1 && unknown.text.contains("has no channel"), "\(unknown)")
    let other = try shell(listen + " --topic a.b --topic c.d", in: installation)
    #expect(
      other.code == 2 && other.text.contains("channels are of one app, and there are 2"), "\(other)"
    )
  }

  @Test("A broadcast by apus send is counted, listed and exported")
  func exported() throws {
    let installation = try Installation()
    #expect(
      try shell(
        #""$0" app --data . --change com.example.app --broadcast on"#, in: installation
      ).code == 0)
    try installation.start()
    let id = try eventually(
      #""$0" channel create --data . --topic com.example.app"#, in: installation
    ).text
    let sent = try shell(
      "\"$0\" send --data . --channel \(id) --topic com.example.app --expiration 0 "
        + "--set aps.timestamp=1 --set aps.event=update --set aps.content-state.home=1",
      in: installation)
    #expect(sent.code == 0, "\(sent)")
    let listed = try shell(#""$0" channel --data ."#, in: installation)
    #expect(listed.text.hasSuffix("  subscriptions=0  published=1  delivered=0"), "\(listed)")
    let wrong = try shell(#""$0" log --data . --export --counts"#, in: installation)
    #expect(wrong.code == 2 && wrong.text.contains("--topic, --since"), "\(wrong)")
    installation.service?.stop()
    let lines = try shell(#""$0" log --data . --export --since 1d"#, in: installation).text
      .split(separator: "\n")
    let figures = ",1,0,0,"
    #expect(lines.first?.hasPrefix("Date (UTC),Topic,Environment,Channel,Broadcasts Pub") == true)
    #expect(lines.count == 3, "\(lines)")
    #expect(lines.contains { $0.hasSuffix(",com.example.app,production,\(id)" + figures) })
    #expect(lines.contains { $0.hasSuffix(",com.example.app,production," + figures + "0") })
  }

  @Test("Switching broadcasts off needs consent, by command and by API")
  func consent() throws {
    let installation = try Installation()
    try installation.start()
    let app = #""$0" app --data . --change com.example.app"#
    let bare = try shell(app + " --broadcast off", in: installation)
    #expect(bare.code == 2 && bare.text.contains("--yes"), "\(bare)")
    #expect(try shell(app + " --broadcast off --yes --retain 3", in: installation).code == 0)
    let call = "curl -s --unix-socket admin.sock -X PATCH -H 'content-type: application/json' "
    let url = " http://localhost/v1/apps/com.example.app"
    let refused = try shell(call + "-d '{\"broadcast\":false}'" + url, in: installation)
    #expect(refused.text.contains("delete_channels"), "\(refused)")
    let on = try shell(call + "-d '{\"broadcast\":true}'" + url, in: installation)
    #expect(on.text.contains("\"broadcast\":true"), "\(on)")
    let listed = try shell(#""$0" app --data ."#, in: installation)
    #expect(listed.text.contains("on") && listed.text.contains("3"), "\(listed)")
    let off = try shell(
      call + "-d '{\"broadcast\":false,\"delete_channels\":true}'" + url, in: installation)
    #expect(off.text.contains("\"broadcast\":false"), "\(off)")
  }

  @Test("curl manages channels with a provider token")
  func curl() throws {
    let installation = try Installation()
    #expect(
      try shell(
        #""$0" app --data . --change com.example.app --broadcast on"#, in: installation
      ).code == 0)
    try installation.start(["--channels-listen", "127.0.0.1:0"])
    let addresses = try String(
      contentsOf: installation.directory.appending(path: "service.addresses"), encoding: .utf8)
    let line = addresses.split(separator: "\n").first { $0.hasPrefix("channels ") }
    let port = try #require(
      line.flatMap { $0.split(separator: " ").first { $0.contains(":") } }?.split(separator: ":")
        .last, "\(addresses)")
    let curl =
      "curl -s --http2 --cacert \(installation.authority) -H \"authorization: bearer $(\"$0\" token make --data .)\" "
    let base = "https://localhost:\(port)/1/apps/com.example.app/"
    let created = try shell(
      curl
        + "-D - -d '{\"message-storage-policy\":1,\"push-type\":\"LiveActivity\"}' \(base)channels",
      in: installation)
    #expect(created.text.contains("HTTP/2 201"), "\(created)")
    let id = try #require(
      created.text.split(whereSeparator: \.isNewline).first { $0.hasPrefix("apns-channel-id: ") }?
        .dropFirst("apns-channel-id: ".count))
    let list = try shell(curl + "\(base)all-channels", in: installation)
    #expect(list.text == "{\"channels\":[\"\(id)\"]}", "\(list)")
    let deleted = try shell(
      curl + "-X DELETE -w '%{http_code}' -H 'apns-channel-id: \(id)' \(base)channels",
      in: installation)
    #expect(deleted.text == "204", "\(deleted)")
  }
}
