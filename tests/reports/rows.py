"""Public reports of what went wrong with interruptions elsewhere, and what Holdfast does in their place.

A report is named by its references: `owner/repository#number`, or the path of a file in a repository where the defect was
read in the source. Tests name a report by any of its references: `@pytest.mark.report("owner/repository#number")`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_THREAD = re.compile(r"(?P<repository>[\w.-]+/[\w.-]+)#(?P<number>\d+)")
_FILE = re.compile(r"(?P<repository>[\w.-]+/[\w.-]+)/(?P<path>.+)")


@dataclass(frozen=True, slots=True)
class Report:
    """One row: where it was reported, what went wrong there, and what Holdfast does.

    `not_yet` says what of it is still missing here, "" when nothing is.
    """

    references: tuple[str, ...]
    wrong: str
    right: str
    not_yet: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """Reports of one kind."""

    title: str
    reports: tuple[Report, ...]


def link(reference: str) -> str:
    """The address of a thread or of a file. GitHub leads from an issue's address to a pull request of that number."""
    thread = _THREAD.fullmatch(reference)
    if thread is not None:
        return f"https://github.com/{thread['repository']}/issues/{thread['number']}"
    file = _FILE.fullmatch(reference)
    if file is None:
        raise ValueError(f"{reference!r} is neither owner/repository#number nor owner/repository/path")
    return f"https://github.com/{file['repository']}/blob/HEAD/{file['path']}"


KPA = "aws/karpenter-provider-aws"
CORE = "kubernetes-sigs/karpenter"
NTH = "aws/aws-node-termination-handler"
GHR = "github-aws-runners/terraform-aws-github-runner"
CDK = "aws/aws-cdk"
POWERTOOLS = "aws-powertools/powertools-lambda-python"

SECTIONS = (
    Section(
        "What Karpenter did with a node",
        (
            Report(
                (f"{KPA}#9226", f"{KPA}#8180", f"{KPA}#3562", f"{KPA}#3214"),
                "The NodeClaim and its node stay in the cluster after the instance is gone.",
                "A NodeClaim that is still there ten minutes after the end is told once, beside the verdict, and once more when "
                "it has gone.",
            ),
            Report(
                (f"{KPA}#8160",),
                'Events of a graceful termination say "Forceful Termination", and people were alarmed.',
                "The text of an event is no evidence: a drain that was over in time is HANDLED_IN_TIME.",
            ),
            Report(
                (f"{KPA}#8276", f"{KPA}#3383"),
                "A pod with the do-not-disrupt annotation holds the drain of a Spot node until EC2 takes the machine.",
                "RECLAIMED_BEFORE_DRAIN with the cause BLOCKED_BY_DO_NOT_DISRUPT and the name of the pod.",
            ),
            Report(
                (f"{KPA}#7083",),
                "A NodeClaim was deleted, and nobody could tell why.",
                "A deletion without a warning that a client carried out is no interruption.",
            ),
            Report(
                (f"{KPA}#5778",),
                "Nodes vanish without having been tainted, so pods are still put on them.",
                "The case is noted as not_tainted. Its verdict goes by the drain: pods that came late have to be off in time too.",
            ),
            Report(
                (f"{KPA}#4689",),
                "The node was gone four seconds after the notice, before its replacement was ready.",
                "Two answers: the drain was HANDLED_IN_TIME, the workload RESTORED_LATE.",
            ),
            Report(
                (f"{KPA}#5667",),
                "Many Spot nodes are lost at once while a PodDisruptionBudget lets pods go one by one.",
                "BLOCKED_BY_PDB for each case, at most one Slack message a minute for all of them.",
            ),
            Report(
                (f"{KPA}#5400",),
                "Karpenter falls behind when its queue is full of messages.",
                "A warning alarm at 30 s of age, a page at 60 s, and the causes LATE_START and, where nothing began in time, "
                "QUEUE_BEHIND.",
            ),
            Report(
                (f"{KPA}#4772",),
                "A malformed message is deleted after a log line, and of a valid one nothing is logged.",
                "A body nobody can read is a row and an alert; the node it was about is MISSED with the cause "
                "UNREADABLE_MESSAGE.",
            ),
            Report(
                (f"{CORE}#2802", f"{CORE}#2985"),
                "A PodDisruptionBudget that allows nothing, or one beside a single replica, stops the drain for ever.",
                "BLOCKED_BY_PDB with the names of the budget and the pod.",
                "a warning before the interruption comes",
            ),
            Report(
                (f"{CORE}#655",),
                "Pods that tolerate the disruption taint stay on the node.",
                "They are not what a drain waits for, and not counted as left over.",
            ),
            Report(
                (f"{KPA}/pkg/controllers/interruption/messages/types.go",),
                "`resources` is read as a list of strings. A plain string fails the parser, which deletes the message.",
                "Holdfast reads it; a node that was not drained after such a message is MISSED with the cause "
                "UNREADABLE_MESSAGE.",
            ),
            Report(
                (f"{KPA}/pkg/controllers/interruption/controller.go",),
                "While nobody receives, the receive count does not rise: messages expire, the dead-letter queue stays "
                "empty.",
                "MISSED with the cause CONSUMER_ABSENT, and a page when the oldest message is 60 s old.",
            ),
            Report(
                (f"{KPA}/pkg/controllers/interruption/messages/scheduledchange/parser.go",),
                "The status of a Health event is not read: the update that closes one drains the node too.",
                "The case is noted as drained_on_closed_notice.",
            ),
        ),
    ),
    Section(
        "Queues, rules and keys",
        (
            Report(
                (f"{KPA}#9523", f"{KPA}#9535"),
                "The metric of the age of messages has absurd values when messages arrive that need no action.",
                "Karpenter's rules leave such events out, and no alarm reads a metric of Karpenter's.",
            ),
            Report(
                (f"{KPA}#5536", f"{KPA}#2834"),
                "Two clusters on one queue delete each other's messages.",
                "synth refuses a queue of two clusters; no function of ours may take a message from Karpenter's queue. A message "
                "that somebody else took is the cause MESSAGE_TAKEN.",
            ),
            Report(
                (f"{KPA}#7209", f"{CDK}#30549"),
                "EventBridge cannot write to a queue with the AWS managed key, and nothing says so.",
                "synth refuses that key and names those that work; doctor finds it on a queue of somebody else's.",
            ),
            Report(
                (f"{KPA}#6024",),
                "The queue's ARN was given where Karpenter wants its name.",
                "An ARN is refused with the name in it; the name is an output of the stack.",
            ),
            Report(
                (f"{KPA}#3005", f"{KPA}#6132", f"{KPA}#3796"),
                "An interruption is injected and nothing happens: no queue, no rules, or no setting.",
                "Nobody polling is an alarm after five minutes, a finding of doctor, and the cause CONSUMER_ABSENT.",
                "the drill that refuses to start without a consumer",
            ),
            Report(
                (f"{CORE}#1799",),
                "Karpenter does not start when the queue it is told of does not exist.",
                "A missing queue has no poller, which is an alarm; rules are made after the queue and its policy.",
                "the drill's check before it starts",
            ),
            Report(
                (f"{NTH}#562",),
                "A queue limited to 2 KB refuses events, and one with a delay eats up the notice.",
                "No queue has either setting, and the configuration refuses them with the reason.",
            ),
            Report(
                (f"{NTH}#526",),
                "Once the queue is encrypted with a key of one's own, no event arrives and no message can be read.",
                "What the key's policy has to allow, for the queue and for its dead-letter queues, is an output.",
            ),
            Report(
                (f"{CDK}#33169", f"{CDK}#20804", f"{CDK}#38706"),
                "EventBridge is not granted the key of the target's dead-letter queue.",
                "The key's statement covers every queue of the cluster.",
            ),
            Report(
                (f"{CDK}#28257", f"{CDK}#30238"),
                "A rule and its queue in different stacks or regions get no policy, or a wrong one.",
                "A rule, its target, the dead-letter queue and their policies are in one stack.",
            ),
            Report(
                (f"{GHR}#5193",),
                "The visibility timeout equals the function's: messages are worked on twice.",
                "It is at least six times the function's timeout; synth refuses less.",
            ),
            Report(
                (
                    "aws-ia/terraform-aws-eks-blueprints-addons#10",
                    "aws-ia/terraform-aws-eks-blueprints#1471",
                    "aws-ia/terraform-aws-eks-blueprints#1482",
                    "aws-ia/terraform-aws-eks-blueprints#1246",
                    "awslabs/cdk-eks-blueprints#587",
                ),
                "The second cluster of a region fails to deploy, because rules or exports have fixed names.",
                "Names carry the cluster and are at most 64 characters; exports carry the stack.",
            ),
            Report(
                ("awslabs/cdk-eks-blueprints#566", "awslabs/cdk-eks-blueprints#799"),
                "The chart is given another queue name than that of the queue.",
                "The name for the chart is an output that refers to the queue itself.",
            ),
            Report(
                ("terraform-aws-modules/terraform-aws-eks#3674",),
                "The rule for capacity reservations is missing in older templates.",
                "All five kinds of rules are deployed, and doctor looks for each.",
            ),
            Report(
                ("cdklabs/cdk-nag#1798", "aws-cloudformation/cfn-lint#3987"),
                "A check asks for a dead-letter queue of the dead-letter queue.",
                "Each finding that is set aside has its reason, and must still be found.",
            ),
            Report(
                ("prowler-cloud/prowler#2565", "prowler-cloud/prowler#1173"),
                "A scanner calls a queue unencrypted that SQS encrypts with its own key.",
                "Queues say SqsManagedSseEnabled, and doctor takes that for encrypted.",
            ),
        ),
    ),
    Section(
        "Reading messages",
        (
            Report(
                (f"{NTH}#1284", f"{NTH}#1279"),
                "The node could not be tainted, and the message was deleted all the same.",
                "A message or a look is acknowledged only when what it asked for is stored; else it comes back.",
            ),
            Report(
                (f"{NTH}#307",),
                "Several events about one node crash the handler.",
                "They are one case with the deadline of the first warning, and one alert.",
            ),
            Report(
                (f"{NTH}#360",),
                "A batch is deleted though only a part of it was worked on.",
                "Only the messages that failed come back.",
            ),
            Report(
                (f"{NTH}#468",),
                "One event without a source keeps the handler in a crash loop until somebody deletes the message.",
                "It is kept as a poison row and acknowledged; the rest of the batch is worked on.",
            ),
            Report(
                (f"{NTH}#250",),
                "The same notice is logged dozens of times.",
                "One event fifty times is one row, one alert and 49 counted duplicates.",
            ),
            Report(
                (f"{NTH}/pkg/monitor/sqsevent/scheduled-change-event.go",),
                "All entities of a Health event have one id, so a store keeps only the first.",
                "Every entity is a row of its own.",
            ),
            Report(
                (f"{POWERTOOLS}#4349", f"{POWERTOOLS}#3716"),
                "A batch that failed as a whole raises, and Lambda slows the pollers down.",
                "It is answered like any other failure; a metric counts it.",
            ),
            Report(
                (f"{POWERTOOLS}#8273", f"{POWERTOOLS}#8274"),
                "A record without a messageId fails the whole batch with a KeyError.",
                "It is given an id made from its body, and handled like the others.",
            ),
            Report(
                (f"{POWERTOOLS}#2490", f"{POWERTOOLS}#1763", "aws-powertools/powertools-lambda#32"),
                "Two invocations with the same event at once end in an exception.",
                "One of them stores the row, the other finds it there; neither fails.",
            ),
        ),
    ),
    Section(
        "Counting and looking",
        (
            Report(
                (f"{NTH}#874",),
                "The state change comes when it is too late to drain.",
                "UNWARNED: EC2 took an instance of which no warning told.",
            ),
            Report(
                (f"{GHR}#5244", f"{GHR}#5245"),
                "State changes were counted as Spot interruptions: 100 to 350 times too many.",
                "A thousand ordinary ends are no interruption, and not even watched.",
            ),
            Report(
                (f"{GHR}#5055", f"{GHR}#931"),
                "A watcher whose look-up fails logs that and goes on; users learn of lost machines from broken jobs.",
                "The fact is stored before anything is looked up; what failed is looked at again; many losses at once alarm.",
            ),
            Report(
                (f"{GHR}/lambdas/functions/termination-watcher/src/termination-warning.ts",),
                "Only the first reservation of EC2's answer is read, and errors are swallowed.",
                "Every reservation of every page is read; an error is an answer of its own and never an empty list.",
            ),
            Report(
                ("openshift/hypershift#8500",),
                "Ten workers handle 80 to 100 interruptions at once; beyond that the two minutes are over.",
                "100 warnings in one second need so few Kubernetes requests that five a second make the first looks "
                "within 30 s.",
            ),
        ),
    ),
    Section(
        "Telling people",
        (
            Report(
                (f"{NTH}#534", f"{NTH}#724"),
                "The webhook timed out, and the notice was lost.",
                "The alert stays in the outbox until the webhook took it.",
            ),
            Report(
                ("slackapi/bolt-js#2509",),
                "Slack refuses blocks of some 13,200 characters in all, though each limit it documents is kept.",
                "A message is cut to 13,000 characters; a digest of any length is taken.",
            ),
            Report(
                ("sourcegraph/sourcegraph#49979", "goharbor/harbor#11281"),
                "Rate limits and refused formats of the webhook lose notices.",
                "429 is waited for as long as it says, refused blocks are sent as plain text, a revoked webhook is "
                "an alarm.",
            ),
        ),
    ),
    Section(
        "Drills",
        (
            Report(
                ("aws-samples/fis-template-library/README.md",),
                "A template for drills interrupts all instances where its description says a quarter.",
                "",
                "the drill and the check of its template",
            ),
            Report(
                ("aws/amazon-ec2-spot-interrupter/README.md",),
                "The role made for a drill may interrupt any instance.",
                "",
                "the drill and the check of its role",
            ),
        ),
    ),
)

REPORTS: tuple[Report, ...] = tuple(report for section in SECTIONS for report in section.reports)
