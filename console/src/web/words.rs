//! The words of the page, in each of its languages. Names, data, errors and the reasons why a job waits are shown as they are.

use std::fmt::Display;

macro_rules! words {
    ($($name:ident: $english:literal, $chinese:literal;)*) => {
        /// The words of one language. One that is missing does not compile.
        #[derive(Debug)]
        pub(crate) struct Words {
            $(pub(crate) $name: &'static str,)*
        }

        pub(crate) const ENGLISH: Words = Words { $($name: $english,)* };
        pub(crate) const CHINESE: Words = Words { $($name: $chinese,)* };

        #[cfg(test)]
        const ALL: &[(&str, &str, &str)] = &[$((stringify!($name), $english, $chinese),)*];
    };
}

words! {
    code: "en", "zh-CN";
    short: "en", "zh";
    skip: "Skip to the content", "跳到内容";
    overview: "Overview", "概览";
    failed_page: "Failed", "失败";
    schedules: "Schedules", "定时任务";
    workers: "Workers", "工作进程";
    search: "Search", "查找";
    search_hint: "Job id, key or queue", "任务 ID、键或队列";
    sign_out: "Sign out", "退出";
    read_only: "read-only", "只读";
    live: "Live", "实时";
    held: "On hold", "暂缓";
    stopped: "Stopped", "已停止";
    stale: "Not reached", "无法连接";
    no_refresh: "Sign in again to go on", "请重新登录";

    queue: "Queue", "队列";
    queues: "Queues", "队列";
    job: "Job", "任务";
    schedule: "Schedule", "定时任务";
    partitions: "partitions", "分区";
    last_used: "Last used (UTC)", "最近使用 (UTC)";
    oldest: "Oldest ready", "最久等待";
    state: "State", "状态";
    delayed: "Delayed", "延迟";
    ready: "Ready", "就绪";
    reserved: "Reserved", "执行中";
    failed: "Failed", "失败";
    paused: "paused", "已暂停";
    paused_in_part: "paused in {} of {} partitions", "{1} 个分区中 {0} 个已暂停";
    limited: "held by a limit", "受限制";
    no_worker: "no worker", "无工作进程";
    jobs_of_page: "Jobs of the {} queues of this page", "本页 {} 个队列的任务";
    no_queues: "No queue has been used yet", "还没有用过任何队列";
    no_queues_more: "A queue is listed here with its first job, under the prefix {}.", "推入第一个任务后，队列就会出现在这里（前缀 {}）。";
    first_page: "First page", "第一页";
    next_page: "Next page", "下一页";
    previous_page: "Previous page", "上一页";
    rows: "{} to {} of {}", "第 {} 至 {} 条，共 {} 条";

    next_due: "Next due", "下次到期";
    next_lease_end: "Next lease ends", "下次租约到期";
    in_span: "in {}", "{} 后";
    now: "now", "现在";
    totals: "Totals", "累计";
    runs_of_hour: "Runs of the last hour", "最近一小时的运行";
    runs_done: "Done", "完成";
    runs_retried: "Retried", "重试";
    wait_times: "Wait p50 / p95", "等待 p50 / p95";
    run_times: "Run p50 / p95", "运行 p50 / p95";
    all_names: "All", "全部";
    other_names: "Other names", "其他名称";
    runs_chart: "By the minute: {} done, {} failed or retried; at most {} in a minute.", "按分钟：{} 次完成，{} 次失败或重试；每分钟最多 {} 次。";
    limits: "Limits", "限制";
    whole_queue: "The whole queue", "整个队列";
    concurrency: "Concurrency", "并发";
    rate: "Rate", "速率";
    rate_in: "{} in {} s", "每 {1} 秒 {0} 个";
    no_limits: "This queue has no limits.", "此队列没有限制。";
    set_limits: "Set limits", "设置限制";
    limit_name: "Limit a name", "限制某个名称";
    change: "Change", "更改";
    save: "Save", "保存";
    limits_of: "Limits of {}", "{} 的限制";
    limits_of_name: "Limits of the name {} in {}", "{1} 中名称 {0} 的限制";
    limits_of_new: "Limits of a name in {}", "{} 中某个名称的限制";
    limits_more: "Concurrency is the most jobs that run at once, in all workers together. Rate is how many jobs start in a time, such as 100/1s or 5/10m. Write none where there is to be no limit. They apply from the next job on: jobs that run are not stopped.", "并发：全部工作进程合计最多同时执行的任务数。速率：一段时间内开始执行的任务数，如 100/1s 或 5/10m。填 none 表示不限制。从下一个任务起生效，正在执行的任务不会停止。";
    max_length: "Most jobs", "最多任务数";
    takes_at_most: "The queue takes {} jobs at the most; failed ones do not count.", "此队列最多容纳 {} 个任务（失败任务不计）。";
    bad_max_length: "Most jobs: it is a number of jobs, or none.", "最多任务数：请填写任务数，或 none。";
    bad_concurrency: "Concurrency: it is a number of jobs, or none.", "并发：请填写任务数，或 none。";
    bad_rate: "Rate: a rate is such as 100/1s or 5/10m, or none.", "速率：格式如 100/1s 或 5/10m，或 none。";
    bad_limited_name: "Say the name that is to have these limits.", "请填写要限制的名称。";
    limits_changed: "Somebody else has changed these limits meanwhile", "这些限制已被他人更改";
    limits_there: "This name has limits already", "该名称已有限制";
    limits_changed_more: "Nothing was changed now. They are: concurrency {}, rate {}. Open the queue again to change those.", "本次未做任何更改。现在的限制：并发 {}，速率 {}。请重新打开队列后再更改。";
    limits_changed_all: "Nothing was changed now. They are: concurrency {}, rate {}, most jobs {}. Open the queue again to change those.", "本次未做任何更改。现在的限制：并发 {}，速率 {}，最多任务数 {}。请重新打开队列后再更改。";
    done_limits: "The limits are changed.", "限制已更改。";
    done_limits_again: "The limits are set in every partition. Those of the first one were these before.", "限制已在每个分区设置。第一个分区的限制原本如此。";
    done_limits_same: "The limits were these before: nothing was changed.", "限制原本如此，未做任何更改。";
    none_in_state: "No job of this queue is in this state.", "此队列没有处于该状态的任务。";
    jobs_gone: "These jobs have moved on. Go to the first page.", "这些任务已有变化，请回到第一页。";

    name: "Name", "名称";
    key: "Key", "键";
    priority: "Priority", "优先级";
    failures: "Failures", "失败次数";
    failures_of: "{} of at most {}", "{}，最多 {}";
    error: "Error", "错误";
    due: "Due (UTC)", "到期 (UTC)";
    lease_ends: "Lease ends (UTC)", "租约到期 (UTC)";
    failed_at: "Failed (UTC)", "失败于 (UTC)";
    pushed_at: "Pushed (UTC)", "推入于 (UTC)";
    why: "Why it is here", "原因";
    progress: "Progress", "进度";
    returns: "Came back", "退回次数";
    token: "Token of its lease", "租约令牌";
    timeout: "Timeout", "超时";
    delay: "Delay", "延迟时间";
    expires: "Expires", "过期时间";
    result_ttl: "Result is kept for", "结果保留";
    retry_policy: "Retry policy", "重试策略";
    headers: "Headers", "头";
    other_fields: "Other fields", "其他字段";
    data: "Data", "数据";
    data_cut: "The first {} of {} characters are shown.", "只显示前 {} 个字符，共 {} 个。";
    save_package: "Save the whole package, byte for byte", "保存完整内容（逐字节）";
    undecodable: "This job cannot be decoded", "无法解码此任务";

    cancel: "Cancel", "取消";
    run_now: "Run now", "立即执行";
    requeue: "Run again", "重新执行";
    requeue_all: "Run all again", "全部重新执行";
    as_commands: "As commands", "对应的命令";
    reschedule: "Reschedule", "改期";
    edit: "Edit and run again", "修改后重新执行";
    requeue_with: "Run again with this data", "用此数据重新执行";
    reschedule_in: "In (such as 90s, 30m, 2h)", "多久以后（如 90s、30m、2h）";
    reschedule_at: "or at (UTC)", "或时间 (UTC)";
    pause: "Pause", "暂停";
    resume: "Resume", "恢复";
    purge: "Remove all {} jobs", "删除全部{}任务";
    remove: "Remove", "删除";
    back: "Back", "返回";
    yes: "Yes, do it", "确认";

    requeue_matching: "Run all that match again", "重新执行全部匹配的任务";
    cancel_matching: "Remove all that match", "删除全部匹配的任务";

    filter_page: "Jobs that match in", "匹配的任务：";
    filter: "Filter", "筛选";
    key_prefix: "Key begins with", "键的开头";
    error_has: "Error has", "错误包含";
    bad_priority: "A priority is a number from 0 to 9.", "优先级是 0 到 9 的数字。";
    none_match: "None of these jobs matches.", "没有匹配的任务。";
    none_match_yet: "None of the {} jobs that this page has looked at matches. There are more jobs: look on.", "本页查看的 {} 个任务都不匹配。还有更多任务：请继续查看。";
    none_match_here: "None of the jobs of this page matches. It is the last page.", "本页没有匹配的任务。这是最后一页。";
    match_of: "{} of {} jobs that were looked at match", "查看了 {1} 个任务，{0} 个匹配";
    match_of_some: "{} of {} jobs that were looked at match; there are more jobs", "查看了 {1} 个任务，{0} 个匹配；还有更多任务";
    look_on: "Look on", "继续查看";
    groups_page: "Failed jobs in groups:", "失败任务分组：";
    groups: "Groups", "分组";
    groups_of: "Groups: {}. Failed jobs: {}.", "{1} 个失败任务，共 {0} 组";
    groups_of_some: "Groups: {}, of the oldest {} failed jobs: more than that are too many for one page", "最早的 {1} 个失败任务，共 {0} 组：更多则一页放不下";
    groups_hidden: "{} of them are in smaller groups that are not shown.", "其中 {} 个属于未显示的较小分组。";
    kind: "How they failed", "失败方式";
    jobs: "Jobs", "任务数";
    first_failed: "First (UTC)", "最早 (UTC)";
    last_failed: "Last (UTC)", "最近 (UTC)";
    newest_error: "Last error", "最近的错误";

    ask_requeue_matching: "Run {} failed jobs of {} that match again?", "重新执行 {1} 中匹配的 {0} 个失败任务？";
    ask_cancel_matching: "Remove {0} {2} jobs of {1} that match?", "删除 {1} 中匹配的 {0} 个{2}任务？";
    ask_cancel_matching_more: "They are removed for good. A worker that runs one loses it.", "任务将被永久删除。若正在执行，工作进程会失去租约。";
    ask_none_match: "No {2} job of {1} matches", "{1} 中没有匹配的{2}任务";
    ask_none_match_more: "If some matched before, they have run, were removed or changed since. There is nothing to do. Go back to see the jobs, or to change the filter.", "如果之前有匹配的任务，它们已执行、被删除或已变化。无需操作。请返回查看任务或修改筛选条件。";
    ask_none_match_yet: "No {2} job of {1} was found that matches", "{1} 中尚未找到匹配的{2}任务";
    ask_none_match_yet_more: "None of the first {} jobs matches, and a page has no time for more. To act on all jobs that match, run `duly requeue` or `duly cancel` with this filter.", "前 {} 个任务都不匹配，页面时限内无法查看更多。要处理全部匹配的任务，请用同样的条件运行 duly requeue 或 duly cancel。";
    asked_some: "{} jobs were looked at, as many as a page has time for. Of those behind them none is touched.", "页面时限内查看了 {} 个任务。其后的任务不会被处理。";
    asked_long_ago: "This was asked too long ago", "询问已过期";
    asked_long_ago_more: "Nothing was done. Go back, and look at the jobs again.", "未执行任何操作。请返回重新查看任务。";
    every_job: "all jobs in this state", "该状态的全部任务";
    unnamed: "without a name", "无名称";
    at_least: "at least {}", "至少 {}";
    done_cancel_matching: "{} jobs are removed.", "已删除 {} 个任务。";
    done_cancel_none: "No job is removed: all of them had left this state, or somebody else had removed them.", "没有删除任务：它们都已离开该状态，或已被他人删除。";
    done_cancel_others: "Jobs that had left this state, or that somebody else had removed: {}.", "已离开该状态或已被他人删除的任务：{} 个。";
    done_matching_left: "{} of them are left: do it again to go on.", "还剩 {} 个：请再次执行以继续。";
    done_matching_ended: "Then it ended: {}.", "随后中止：{}。";
    done_matching_doubt: "The jobs of the last call may be done, too.", "最后一次调用的任务可能也已处理。";
    done_matching_some: "{} jobs were looked at: do it again to go on.", "已查看 {} 个任务：请再次执行以继续。";

    ask_cancel: "Cancel this job?", "取消此任务？";
    ask_cancel_more: "It is removed for good. If a worker runs it, that worker loses it.", "任务将被永久删除。若正在执行，执行它的工作进程会失去租约。";
    ask_requeue_all: "Run all {} failed jobs of {} again?", "重新执行 {1} 的全部 {0} 个失败任务？";
    ask_requeue_all_more: "Their failures are forgotten, and they are ready at once.", "失败次数清零，并立即就绪。";
    ask_purge: "Remove all {0} {2} jobs of {1}?", "删除 {1} 中全部 {0} 个{2}任务？";
    ask_purge_failed_more: "This cannot be undone. Jobs that fail from now on stay.", "此操作不可撤销。此后失败的任务会保留。";
    ask_purge_more: "This cannot be undone. No more jobs than this number are removed, in the order in which they come up: delayed ones by their due time, ready ones by priority, running ones by the end of their lease. A job that comes meanwhile may be among them, and another one stays then.", "此操作不可撤销。最多删除此数量的任务，按任务的先后顺序：延迟任务按到期时间，就绪任务按优先级，执行中的任务按租约到期时间。期间新到的任务可能在其中，此时会有另一个任务保留。";
    delete_queue: "Delete the queue", "删除队列";
    ask_delete: "Delete the queue {}?", "删除队列 {}？";
    ask_delete_empty: "It has no jobs. Its limits and totals are deleted with it.", "它没有任务。其限制和累计数会一并删除。";
    ask_delete_jobs: "Its {} jobs are lost, and its limits and totals are deleted with them. A worker that runs one loses it. This cannot be undone. If there are more or fewer jobs when you say yes, nothing is deleted.", "其中 {} 个任务将丢失，限制和累计数会一并删除。正在执行任务的工作进程会失去租约。此操作不可撤销。若确认时任务数已变化，则不会删除任何内容。";
    delete_schedules: "It has schedules ({}), which would push new jobs: remove them first.", "它有定时任务（{} 个），会推入新任务：请先删除它们。";
    not_deleted: "The queue is not deleted", "队列未删除";
    not_deleted_more: "Jobs came or went meanwhile: you were asked about {}, and there are {} now.", "期间任务数有变化：询问时为 {} 个，现在为 {} 个。";
    ask_again: "Ask again", "重新询问";
    deleted_before: "Somebody else has deleted it meanwhile.", "它已被他人删除。";
    done_delete: "The queue {} is deleted. It had {} jobs.", "队列 {} 已删除，原有 {} 个任务。";
    ask_remove: "Remove the schedule {}?", "删除定时任务 {}？";
    ask_remove_more: "It fires no more. Jobs that it has pushed stay.", "不再触发。已推入的任务保留。";
    none_left: "There is none any more.", "已经没有了。";

    done_cancel: "The job {} is cancelled.", "任务 {} 已取消。";
    done_reschedule: "The job {} has another due time.", "任务 {} 已改期。";
    done_requeue: "The job {} is ready again.", "任务 {} 已重新就绪。";
    done_requeue_all: "{} jobs are ready again.", "{} 个任务已重新就绪。";
    done_requeue_none: "No job is ready again: none of those is in failed any more. They were run again or removed since the question.", "没有任务重新就绪：所问的任务都已不在失败中。提问之后它们已重新执行或被删除。";
    done_requeue_some: "{} jobs are ready again; {} were not run again: other jobs have their keys, or somebody else was first.", "{} 个任务已重新就绪；{} 个未重新执行：键被其他任务占用，或已被他人处理。";
    done_purge: "{} jobs are removed.", "已删除 {} 个任务。";
    done_left: "Jobs that are left in this state: {}.", "该状态还剩任务：{} 个。";
    done_purge_none: "No job is removed: none of those is in this state any more. They have left it or were removed since the question.", "没有删除任务：所问的任务都已不在该状态。提问之后它们已离开该状态或被删除。";
    done_pause: "The queue is paused: no more of its jobs are handed out.", "队列已暂停：不再分发任务。";
    done_resume: "The queue hands out jobs again.", "队列已恢复分发任务。";
    done_schedule_pause: "The schedule is paused.", "定时任务已暂停。";
    done_schedule_resume: "The schedule fires again.", "定时任务已恢复。";
    done_schedule_run: "The job {} is pushed.", "任务 {} 已推入。";
    done_schedule_remove: "The schedule is removed.", "定时任务已删除。";
    under_way: "This form was sent before, and what it asks for is under way. See what it comes to before you do it again.", "此表单已提交，操作正在进行中。请先查看结果再重试。";
    goes_on_title: "This goes on", "操作仍在进行";
    goes_on_yet: "This takes longer than a browser waits. It goes on, and a page that is loaded when it has ended says what came of it. Do not do it again before.", "操作时间较长，浏览器不再等待。操作会继续进行，结束后打开的页面会显示结果。在此之前请勿重复操作。";
    sent_before: "This form was sent before, and acts once: what it asks for is under way, or has ended. See what it came to before you do it again.", "此表单已提交过，只执行一次：操作正在进行或已结束。请先查看结果再重试。";
    done_before: "This form was sent before, and acted once. Nothing more was done.", "此表单已提交过，只执行一次；未再执行任何操作。";

    no_failed: "No job has failed for good", "没有失败的任务";
    no_failed_more: "A job without retries left stays here until it is run again or removed.", "没有剩余重试次数的任务会留在这里，直到重新执行或删除。";
    newest_failed: "The newest {} of {}", "最新 {} 个，共 {} 个";
    newest_of_parts: "The newest {} of a queue with partitions are here. Filter has all, partition after partition.", "分区队列在此只列出最新的 {} 个。用“筛选”可按分区逐个查看全部。";
    show_all: "Show all", "查看全部";
    trimmed: "{} older ones were removed by the queue's bounds.", "{} 个更早的任务因上限被移除。";

    no_schedules: "No queue of this page has schedules", "本页的队列没有定时任务";
    no_schedules_more: "Schedules push jobs by a cron pattern or at an interval.", "定时任务按 cron 表达式或固定间隔推入任务。";
    more_schedules: "{} shows its first {} schedules here.", "{} 在此只显示前 {} 个定时任务。";
    when: "When", "时间";
    every: "every {}", "每 {}";
    next: "Next (UTC)", "下次 (UTC)";
    last: "Last (UTC)", "上次 (UTC)";
    fired: "Fired", "已触发";
    owner: "Owner", "所有者";
    overlap: "While an earlier job is there", "上一个任务仍在时";
    catch_up: "Missed slots", "错过的触发点";
    changed_at: "Changed (UTC)", "修改于 (UTC)";
    next_slots: "Next slots (UTC)", "接下来的触发点 (UTC)";
    no_next_slots: "It has no next slot: it is paused or over.", "没有下一个触发点：已暂停或已结束。";
    last_fires: "Last fires", "最近触发";
    no_fires: "It has not fired yet.", "尚未触发。";
    slot: "Slot (UTC)", "触发点 (UTC)";
    at: "At (UTC)", "时间 (UTC)";
    outcome: "Outcome", "结果";

    no_workers: "No worker serves the queues of this page", "本页的队列没有工作进程";
    no_workers_more: "A worker is listed a moment after it starts, and for up to 30 s after it died.", "工作进程启动后即会列出；异常退出后最多 30 秒消失。";
    worker: "Worker", "工作进程";
    language: "Language", "语言";
    started: "Started (UTC)", "启动于 (UTC)";
    serves: "Serves", "服务队列";
    runs: "Runs", "正在执行";
    idle: "idle", "空闲";

    topics: "Topics", "主题";
    topic: "Topic", "主题";
    no_topics: "No topic has been used yet", "还没有用过任何主题";
    no_topics_more: "A topic is listed here with its first message or subscription.", "发布第一条消息或首次订阅后，主题就会出现在这里。";
    no_topic: "There is no such topic", "主题不存在";
    no_topic_more: "Nothing was published there, and nobody reads it.", "没有发布过消息，也没有订阅者。";
    no_topic_name: "this is no name of a topic", "这不是主题的名称";
    messages: "Messages", "消息数";
    bytes: "Size", "大小";
    oldest_message: "Oldest message (UTC)", "最早的消息 (UTC)";
    published: "Published in all", "累计发布";
    keeps_at_most: "Keeps at most", "最多保留";
    topic_bounds: "{}, {} messages, {}", "{}，{} 条消息，{}";
    subscriptions: "Subscriptions", "订阅";
    subscription: "Subscription", "订阅";
    no_subscriptions: "Nobody reads this topic: its messages stay for later subscriptions, within its bounds.", "没有订阅者：消息在上限之内保留，供以后的订阅读取。";
    behind: "Behind by", "落后";
    who_is_behind: "Who is the furthest", "落后最多的订阅";
    read_until: "Has read up to", "已读至";
    not_pulled: "Not pulled", "未拉取";
    not_acked: "Pulled, not acked", "已拉取未确认";
    members: "Members", "成员";
    member: "Member", "成员";
    silent_for: "Silent for", "未活动";
    cut_off: "cut off", "已断开";
    cut_off_more: "These have lost messages that they had not read, by the bounds of the topic, until one of their members subscribes again.", "这些订阅因主题的上限丢失了未读消息，直到其成员重新订阅。";
    first_lost: "First lost", "丢失起始";
    last_lost: "Last lost", "丢失末尾";

    server: "Server", "服务器";
    findings: "Problems: {}. Warnings: {}. Notes: {}.", "{} 个问题，{} 个警告，{} 条提示";
    check: "Check", "检查项";
    level: "Level", "级别";
    about: "About", "对象";
    found: "What is so", "情况";
    to_do: "What to do", "处理办法";
    level_ok: "ok", "正常";
    level_note: "note", "提示";
    level_warning: "warning", "警告";
    level_problem: "problem", "问题";
    not_live: "This was checked when the page was loaded.", "以上为加载页面时的检查结果。";
    check_again: "Check again", "重新检查";

    actions: "Actions", "操作记录";
    actions_more: "What was done by this page and by the command duly, the newest first. The server keeps the newest 1,000.", "通过此页面和 duly 命令执行的操作，最新的在前。服务器保留最新 1,000 条。";
    no_actions: "Nothing was done", "没有操作记录";
    no_actions_more: "Nothing was done yet, or not so much.", "尚无操作，或没有这么多。";

    results_for: "Results for “{}”", "“{}”的查找结果";
    nothing_found: "Nothing found", "没有找到";
    nothing_found_more: "No job has this id, and no live one this key, in the queues that were searched ({}): it is done, was cancelled, or never was there. The key of a job that has failed is free: look for it on the page of its queue, by the filter of failed jobs.", "已查找的队列（{} 个）中没有任务使用此 ID，也没有未结束的任务使用此键：已完成、已取消，或从未存在。失败任务的键已被释放：请在其队列页面用失败任务的筛选查找。";
    searched: "Queues that were searched: {}.", "已查找 {} 个队列。";
    searched_some: "Only the first {} queues were searched: open a queue to look into it.", "只查找了前 {} 个队列，请打开具体队列继续查找。";
    search_more: "Type the id or the key of a job, or a part of the name of a queue.", "输入任务的 ID 或键，或队列名称的一部分。";
    in_queue: "Id or key of a job", "任务的 ID 或键";

    sign_in: "Sign in", "登录";
    go_on: "This browser is signed in already: go on", "此浏览器已登录：继续";
    password: "Password", "密码";
    sign_in_token: "Start `duly web` again, and open the address that it prints. It signs in one browser, once.", "请重新运行 duly web 并打开它打印的地址。该地址只能登录一个浏览器，且只能使用一次。";
    wrong_password: "This is not the password.", "密码错误。";
    too_many: "Too many wrong passwords: try again in a minute.", "密码错误次数过多：请一分钟后再试。";
    used_token: "This address was used before, or is not the one that was printed.", "此地址已使用过，或不是打印出来的地址。";

    not_found: "There is no such page", "页面不存在";
    gone: "gone", "已不在";
    history: "History", "历史";
    keeps_history: "What happens to about {} jobs is kept for {}, also of jobs that are gone.", "保留约 {} 个任务的经过，时长 {}，任务不在后仍可查看。";
    keeps_no_history: "What happens to the jobs of this queue is not kept.", "未保留此队列任务的经过。";
    keep_history: "Keep a history", "保留历史";
    done_keep_history: "What happens to the jobs of this queue is kept from now on.", "从现在起保留此队列任务的经过。";
    timeline: "What happened", "经过";
    timeline_cut: "There is more: a page reads histories for two seconds and shows the last {} events. `duly trace` tells all.", "还有更多：页面最多用两秒读取历史，只显示最近 {} 条事件。用 duly trace 可查看全部。";
    timeline_incomplete: "What happened before is not kept, or no longer.", "更早的经过未保留，或已不再保留。";
    histories_cut: "Their histories are long, and were not read to the end: a job that is gone may be in them. `duly trace` reads all of one.", "这些队列的历史较长，未能全部读取，已结束的任务可能仍在其中。用 duly trace 可读取某个队列的全部历史。";
    no_history: "The queue keeps no history: this is what the stored job tells. `duly history` says how to keep one.", "此队列未保留历史：以下只是任务记录中的内容。用 duly history 可开启。";
    what: "What", "事件";
    details: "Details", "详情";
    by: "By", "操作者";
    was_pushed: "pushed", "已推入";
    was_promoted: "due", "到期";
    was_reserved: "reserved", "已领取";
    was_started: "started", "已开始";
    was_done: "done", "已完成";
    was_retried: "to be retried", "将重试";
    was_released: "released", "已退回";
    was_given_back: "given back before it started", "未开始即退回";
    was_lease_ended: "lease ended", "租约到期";
    was_failed: "failed", "失败";
    was_cancelled: "cancelled", "已取消";
    was_expired: "expired", "已过期";
    was_rescheduled: "rescheduled", "已改期";
    was_requeued: "run again", "重新执行";
    was_purged: "purged", "已清除";
    was_replaced: "replaced", "已被替换";
    was_trimmed: "too many or too old in failed", "失败任务过多或过旧而删除";
    was_departed: "moved to another queue", "已移至其他队列";
    was_put_back: "put back", "已放回";
    was_repaired: "repaired by an audit", "已由审计修复";
    no_job: "There is no such job", "任务不存在";
    no_job_more: "It is done, was cancelled, or never was in this queue.", "已完成、已取消，或从未在此队列中。";
    no_queue: "There is no such queue", "队列不存在";
    no_queue_more: "No queue of this name has been used under this prefix.", "此前缀下没有用过该名称的队列。";
    no_queue_of_parts: "A queue of this name is there with another number of partitions ({}): open it from the overview.", "同名队列的分区数不同（{}）：请从概览中打开。";
    no_schedule: "There is no such schedule", "定时任务不存在";
    no_failed_job: "There is no such failed job. Somebody else may have been first.", "没有这个失败任务，可能已被他人处理。";
    key_taken: "It stays in failed: its key belongs to the job {} now.", "仍在失败中：其键现在属于任务 {}。";
    unreachable: "The server of the queues does not answer", "队列服务器没有响应";
    unreachable_more: "Nothing is lost. This page comes back when the server does.", "不会丢失任何数据。服务器恢复后，此页面会自动恢复。";
    unreachable_form: "No job is lost. Go on from the overview when the server is back.", "不会丢失任何任务。服务器恢复后，请从概览继续操作。";
    maybe_done: "The action may have been done. Look before you send it again.", "操作可能已经执行，请先查看再重试。";
    unseen_not_done: "What you asked for before ({}) was not done: {}", "之前请求的操作（{}）未执行：{}";
    unseen_maybe_done: "What you asked for before ({}) may have been done: {}", "之前请求的操作（{}）可能已执行：{}";
    unseen_partly_done: "Only a part was done of what you asked for before ({}): {}", "之前请求的操作（{}）只完成了一部分：{}";
    partly_done: "Only a part of this was done", "只完成了一部分";
    partly_done_more: "See what is left before you do it again: this form is used.", "请先查看剩余的内容再重试：此表单已使用。";
    went_wrong: "This cannot be shown", "无法显示";
    refused: "This is refused", "已拒绝";
    refused_form: "The form does not come from a page of this session. Load the page again, then send it again.", "表单不是来自本会话的页面。请重新加载页面后再提交。";
    refused_role: "You may not do this: the application that shows this page decides who may.", "您无权执行此操作：由显示此页面的应用决定。";
    data_hidden: "The data and headers of jobs are hidden from those who may only look.", "仅有查看权限时，任务的数据和头不显示。";
    refused_read_only: "This page is read-only: start `duly web` without --read-only to act.", "此页面为只读：不带 --read-only 启动 duly web 才能操作。";
    bad_time: "Say a span, such as 90s, 30m or 2h, or a time; not both.", "请填写时长（如 90s、30m、2h）或时间，二者选一。";
}

/// Languages that a browser can ask for.
pub(crate) const LANGUAGES: [(&str, &str, &Words); 2] = [("en", "English", &ENGLISH), ("zh", "中文", &CHINESE)];

impl Words {
    /// The language of that code.
    pub(crate) fn of(code: &str) -> Option<&'static Self> {
        LANGUAGES.iter().find(|(known, _, _)| *known == code).map(|(_, _, words)| *words)
    }

    /// The first known language of an `Accept-Language`, whose order browsers keep.
    pub(crate) fn accepted(header: &str) -> &'static Self {
        let mut codes = header.split(',').map(|one| one.trim().split(['-', ';']).next().unwrap_or(""));
        codes.find_map(|code| Self::of(&code.to_ascii_lowercase())).unwrap_or(&ENGLISH)
    }
}

/// Puts values in the places of a text: `{}` in their order, `{0}` by their number.
pub(crate) fn fill(text: &str, values: &[&dyn Display]) -> String {
    let mut filled = String::new();
    let (mut rest, mut next) = (text, 0);
    while let Some((before, behind)) = rest.split_once('{') {
        let (place, behind) = behind.split_once('}').unwrap_or((behind, ""));
        filled.push_str(before);
        let index = place.parse().unwrap_or(next);
        next += 1;
        if let Some(value) = values.get(index) {
            filled.push_str(&value.to_string());
        }
        rest = behind;
    }
    filled + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The places of a text, by number.
    fn places(text: &str) -> Vec<String> {
        let inside = text.split('{').skip(1).map(|behind| behind.split('}').next().unwrap());
        let mut all: Vec<_> = inside
            .enumerate()
            .map(|(index, place)| if place.is_empty() { index.to_string() } else { place.to_owned() })
            .collect();
        all.sort();
        all
    }

    #[test]
    fn every_word_is_there_in_every_language() {
        for (name, english, chinese) in ALL {
            assert!(!english.trim().is_empty() && !chinese.trim().is_empty(), "{name}");
            assert_eq!(places(english), places(chinese), "{name}");
            let is_chinese = chinese.chars().any(|one| ('\u{4e00}'..='\u{9fff}').contains(&one));
            assert!(is_chinese || ["code", "short"].contains(name), "{name} is not translated");
        }
    }

    #[test]
    fn values_are_put_in_their_places() {
        assert_eq!(fill("{} of {}", &[&1, &"{}"]), "1 of {}");
        assert_eq!(fill("{1} of {0}", &[&1, &2]), "2 of 1");
        assert_eq!(fill("none", &[&1]), "none");
    }

    #[test]
    fn the_language_is_the_first_that_is_known() {
        for (header, code) in
            [("", "en"), ("fr, zh-CN;q=0.8, en", "zh"), ("ZH", "zh"), ("de", "en"), ("en-GB,zh", "en")]
        {
            assert_eq!(Words::accepted(header).short, code, "{header}");
        }
    }
}
