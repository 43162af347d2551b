#include "report/page.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <zlib.h>

#include <fstream>
#include <thread>

#include "agent/trajectory.h"
#include "base/files.h"
#include "base/gzip.h"
#include "base/text.h"
#include "report/loader.h"
#include "report/report.h"
#include "report/serve.h"
#include "synthetic.h"

namespace ptxbench::report {
namespace {

std::string gunzip(const std::string& bytes) {
  z_stream stream{};
  EXPECT_EQ(::inflateInit2(&stream, 15 + 16), Z_OK);
  std::string out(64 << 20, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(::inflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  ::inflateEnd(&stream);
  return out;
}

Table load(const std::filesystem::path& folder) {
  Loader loader({folder});
  auto table = loader.load();
  EXPECT_TRUE(table) << table.error().message;
  return table ? std::move(*table) : Table();
}

std::size_t count_of(std::string_view text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(Page, NothingOfARunIsMarkup) {
  auto folder = base::TempDir::create();
  SyntheticOptions options;
  options.hostile = true;
  write_experiment_shape(folder->path() / "run", options);
  PageOptions page;
  page.title = "<script>alert(1)</script> & {{data}}";
  const Table table = load(folder->path() / "run");
  const std::string html = page_html(table, page);
  EXPECT_EQ(html.find("<script>alert"), std::string::npos);
  EXPECT_NE(html.find("&lt;script&gt;alert"), std::string::npos);
  // Two scripts run, named by their digests; all other script elements are data.
  EXPECT_EQ(count_of(html, "<script>"), 2U);
  EXPECT_EQ(count_of(html, "<script type=\"text/plain\""), 24U);
  // The figures stand there as JSON in which no character can open or end an element.
  const auto block = [&](std::string_view id) {
    const std::string open = fmt::format("<script type=\"application/json\" id=\"{}\">", id);
    EXPECT_EQ(count_of(html, open), 1U);
    const std::size_t begin = html.find(open) + open.size();
    const std::string json = html.substr(begin, html.find('<', begin) - begin);
    EXPECT_EQ(html.substr(begin + json.size(), 9), "</script>");
    return base::Json::parse(json);
  };
  const std::vector<bool> texts(table.trajectories.size(), true);
  base::Json expected = page_data(table, page, texts, 0), found = block("data");
  EXPECT_NE(found.dump().find("window.attacked"), std::string::npos);  // hostile names are in it
  found["details"] = block("details");
  expected.erase("made"), found.erase("made");
  EXPECT_EQ(found, expected);
  EXPECT_NE(html.find("default-src 'none'; script-src 'sha256-"), std::string::npos);
  EXPECT_EQ(html.find("unsafe"), std::string::npos);
  EXPECT_EQ(html.find("http://"),
            html.find("https://") == std::string::npos ? std::string::npos : html.find("http://"));
}

TEST(Page, TheLimitOfTextsIsKeptAndSaid) {
  auto folder = base::TempDir::create();
  SyntheticOptions options;
  options.runs = 2;
  options.trajectories = 8;
  write_experiment_shape(folder->path() / "run", options);
  const Table table = load(folder->path() / "run");
  PageOptions page;
  const std::string whole = page_html(table, page);
  page.text_bytes = 16 << 10;
  const std::string small = page_html(table, page);
  EXPECT_LT(small.size(), whole.size());
  EXPECT_GE(count_of(small, "id=\"texts-"), 1U);
  EXPECT_LT(count_of(small, "id=\"texts-"), 16U);
  page.text_bytes = 0;
  EXPECT_EQ(count_of(page_html(table, page), "id=\"texts-"), 0U);
}

TEST(Page, DataHaveAColumnPerMember) {
  auto folder = base::TempDir::create();
  write_published_shape(folder->path(), {});
  const Table table = load(folder->path());
  const base::Json data = page_data(table, {}, std::vector<bool>(table.trajectories.size()), 0);
  EXPECT_EQ(data["turns"]["label"].size(), table.turn_count());
  EXPECT_EQ(data["turns"]["target"].get<std::string>().size(), table.turn_count());
  EXPECT_EQ(data["trajectories"]["run"].size(), table.trajectories.size());
  EXPECT_EQ(data["trajectories"]["pack"], 0);  // the same for all
  const base::Json& details = data["details"];
  EXPECT_EQ(details["trajectories"].size(), table.trajectories.size());
  EXPECT_EQ(details["turns"]["reasoning_tokens"].size(), table.turn_count());
  EXPECT_TRUE(details["turns"]["cost"].is_null());  // not a column of zeros
  EXPECT_TRUE(data["turns"]["number"].is_null() || data["turns"]["number"].size() == table.turn_count());
  EXPECT_EQ(gunzip(base::gzip(data.dump())), data.dump());
  EXPECT_EQ(base64("any carnal pleas"), "YW55IGNhcm5hbCBwbGVhcw==");
}

TEST(Page, ATimelineIsPassedOn) {
  auto folder = base::TempDir::create();
  write_experiment_shape(folder->path() / "run", {});
  const Table table = load(folder->path() / "run");
  const auto& file = table.trajectories[0].file;
  // Turns of records count from 1.
  ASSERT_TRUE(base::write_file_atomic(agent::timeline_path(file, 2), "any carnal pleas"));
  const auto texts = trajectory_texts(table.trajectories[0]);
  ASSERT_TRUE(texts) << texts.error().message;
  EXPECT_TRUE((*texts)["turns"][0]["timeline"].is_null());
  EXPECT_EQ((*texts)["turns"][1]["timeline"]["file"], "YW55IGNhcm5hbCBwbGVhcw==");
  ASSERT_TRUE(base::write_file_atomic(agent::timeline_path(file, 2), std::string(3 << 20, 'x')));
  EXPECT_EQ((*trajectory_texts(table.trajectories[0]))["turns"][1]["timeline"]["path"],
            agent::timeline_path(file, 2).string());
  EXPECT_EQ((*trajectory_texts(table.trajectories[0]))["turns"][1]["timeline"]["why"], "It is too big for this page");
  // A folder of timelines is no run.
  EXPECT_EQ(load(folder->path()).runs.size(), table.runs.size());
}

TEST(Page, TextsOfATrajectory) {
  auto folder = base::TempDir::create();
  write_experiment_shape(folder->path() / "run", {});
  const Table table = load(folder->path() / "run");
  const auto texts = trajectory_texts(table.trajectories[0]);
  ASSERT_TRUE(texts) << texts.error().message;
  EXPECT_EQ((*texts)["turns"].size(), 8U);
  EXPECT_LE((*texts)["sources"].size(), 8U);
  for (const base::Json& turn : (*texts)["turns"]) {
    if (!turn["source"].is_null()) {
      EXPECT_TRUE((*texts)["sources"][turn["source"].get<std::size_t>()].is_string());
    }
  }
}

TEST(Serve, FollowsARunningExperiment) {
  auto folder = base::TempDir::create();
  SyntheticOptions small;
  small.runs = 2;
  small.trajectories = 2;
  write_experiment_shape(folder->path() / "run", small);
  ServeOptions options;
  options.port = 0;
  auto server = PageServer::bind(
      std::move(options),
      std::make_unique<Loader>(std::vector<std::filesystem::path>{folder->path() / "run"}, Broken::note));
  ASSERT_TRUE(server) << server.error().message;
  std::jthread thread([&] { (*server)->run(); });
  httplib::Client client("127.0.0.1", (*server)->port());
  client.set_read_timeout(20);
  const auto page = client.Get("/");
  ASSERT_TRUE(page);
  EXPECT_NE(page->body.find("connect-src 'self'"), std::string::npos);
  EXPECT_EQ(page->body.find("id=\"data\""), std::string::npos);
  const auto first = client.Get("/data");
  ASSERT_TRUE(first);
  EXPECT_EQ(base::Json::parse(gunzip(first->body))["turns"]["label"].size(), 32U);
  EXPECT_EQ((*server)->files_read(), 4U);
  const std::string version = first->get_header_value("X-Version");
  const auto texts = client.Get("/texts?trajectory=1&version=" + version);
  ASSERT_TRUE(texts);
  EXPECT_EQ(base::Json::parse(gunzip(texts->body))["turns"].size(), 8U);
  EXPECT_EQ(client.Get("/texts?trajectory=99&version=" + version)->status, 404);
  EXPECT_EQ(client.Get("/texts?trajectory=../../etc/passwd&version=" + version)->status, 404);
  EXPECT_EQ(client.Get("/", {{"Host", "evil.example"}})->status, 403);
  // A trajectory more: it alone is read.
  const auto files = folder->path() / "run" / "trajectories";
  std::filesystem::copy_file(files / "exp_000.jsonl", files / "exp_900.jsonl");
  base::Json now;
  for (int i = 0; i < 100 && (now.is_null() || now["version"].dump() == version); ++i) {
    now = base::Json::parse(client.Get("/version")->body);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_NE(now["version"].dump(), version);
  EXPECT_EQ(base::Json::parse(gunzip(client.Get("/data")->body))["turns"]["label"].size(), 40U);
  EXPECT_EQ((*server)->files_read(), 5U);
  // An old number must not name another trajectory.
  EXPECT_EQ(client.Get("/texts?trajectory=1&version=" + version)->status, 404);
  (*server)->stop();
}

TEST(Serve, ATakenPortIsAnError) {
  auto folder = base::TempDir::create();
  write_published_shape(folder->path(), {});
  httplib::Server other;
  const int port = other.bind_to_any_port("127.0.0.1");
  ServeOptions options;
  options.port = port;
  const auto server = PageServer::bind(
      std::move(options), std::make_unique<Loader>(std::vector<std::filesystem::path>{folder->path()}, Broken::note));
  ASSERT_FALSE(server);
  EXPECT_NE(server.error().message.find("in use"), std::string::npos);
}

TEST(Command, WritesWhatItIsAskedFor) {
  auto folder = base::TempDir::create();
  write_published_shape(folder->path() / "in", {});
  std::string out;
  const auto run = [&](ReportOptions options) {
    out.clear();
    options.runs = {(folder->path() / "in").string()};
    return run_report(options, base::Style(false), [&](std::string_view text) { out += text; });
  };
  ReportOptions options;
  ASSERT_TRUE(run(options));
  EXPECT_NE(out.find("Fast_0.5"), std::string::npos);
  options.json = true;
  ASSERT_TRUE(run(options));
  EXPECT_EQ(base::Json::parse(out)["schema"], "ptxbench.report/1");
  options.json = false;
  options.csv = (folder->path() / "csv").string();
  options.html = (folder->path() / "page.html").string();
  ASSERT_TRUE(run(options));
  EXPECT_TRUE(std::filesystem::exists(folder->path() / "csv" / "turns.csv"));
  EXPECT_TRUE(std::filesystem::exists(folder->path() / "csv" / "correctness_rate_by_release_date.csv"));
  EXPECT_TRUE(std::filesystem::exists(folder->path() / "page.html"));
  ReportOptions wrong;
  wrong.group_by = {"modl"};
  const auto refused = run(wrong);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("did you mean 'model'"), std::string::npos);
  wrong.group_by = {"pool"};
  EXPECT_FALSE(run(wrong));
  wrong.group_by.clear();
  wrong.thresholds = {-1};
  EXPECT_FALSE(run(wrong));
  wrong.thresholds.clear();
  wrong.compare = {"Model 0", "Model 9"};
  EXPECT_FALSE(run(wrong));
  wrong.compare = {"Model 0", "Model 0"};
  EXPECT_FALSE(run(wrong));
}

}  // namespace
}  // namespace ptxbench::report
