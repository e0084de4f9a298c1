// corebench measures upstream's scheduling algorithm alone: no API server, no queue, no binding.
//
// It reads objects as JSON lines. Nodes, placed pods and disruption budgets fill the cluster; pods without a node are
// then decided in the order in which they came: update the snapshot, decide, assume. A pod that fits nowhere goes
// through preemption; when that finds a node, the victims are removed, the pod is nominated and decided once more.
// benchmarks/core.py does the same with this project's core. Prints one line of JSON.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes/fake"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	configscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	"k8s.io/kubernetes/pkg/scheduler/profile"
)

const defaultConfig = `{"apiVersion":"kubescheduler.config.k8s.io/v1","kind":"KubeSchedulerConfiguration"}`

// result is what is printed.
type result struct {
	Pods      int     `json:"pods"`
	Placed    int     `json:"placed"`
	Failed    int     `json:"failed"`
	Preempted int     `json:"preempted"`
	Victims   int     `json:"victims"`
	Seconds   float64 `json:"seconds"`
	FillTime  float64 `json:"fillSeconds"`
}

// core is upstream's scheduler without the parts that talk to anything.
type core struct {
	scheduler *scheduler.Scheduler
	framework framework.Framework
	snapshot  *cache.Snapshot
	preemptor *defaultpreemption.DefaultPreemption
	budgets   []*policy.PodDisruptionBudget
	logger    klog.Logger
}

func main() {
	percentage := flag.Int("percentage", 0, "percentageOfNodesToScore; 0 is upstream's adaptive default")
	flag.Parse()
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	if err := run(int32(*percentage)); err != nil {
		fmt.Fprintln(os.Stderr, "corebench:", err)
		os.Exit(1)
	}
}

func run(percentage int32) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c, err := newCore(ctx, percentage)
	if err != nil {
		return err
	}
	started := time.Now()
	pending, err := c.fill(os.Stdin)
	if err != nil {
		return err
	}
	r := result{Pods: len(pending), FillTime: time.Since(started).Seconds()}
	started = time.Now()
	for _, pod := range pending {
		if err := c.schedule(ctx, pod, &r); err != nil {
			return fmt.Errorf("pod %s: %w", pod.Name, err)
		}
	}
	r.Seconds = time.Since(started).Seconds()
	return json.NewEncoder(os.Stdout).Encode(r)
}

func newCore(ctx context.Context, percentage int32) (*core, error) {
	decoded, _, err := configscheme.Codecs.UniversalDecoder().Decode([]byte(defaultConfig), nil, nil)
	if err != nil {
		return nil, err
	}
	profiles := decoded.(*config.KubeSchedulerConfiguration).Profiles
	client := fake.NewClientset()
	informers := scheduler.NewInformerFactory(client, 0)
	recorders := profile.NewRecorderFactory(events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()}))
	s, err := scheduler.New(ctx, client, informers, nil, recorders,
		scheduler.WithProfiles(profiles...), scheduler.WithPercentageOfNodesToScore(&percentage))
	if err != nil {
		return nil, err
	}
	informers.Start(ctx.Done())
	informers.WaitForCacheSync(ctx.Done())
	f := s.Profiles[profiles[0].SchedulerName]
	args := &config.DefaultPreemptionArgs{MinCandidateNodesPercentage: 10, MinCandidateNodesAbsolute: 100}
	gates := feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	preemptor, err := defaultpreemption.New(ctx, args, f, gates)
	if err != nil {
		return nil, err
	}
	return &core{
		scheduler: s,
		framework: f,
		snapshot:  f.SnapshotSharedLister().(*cache.Snapshot),
		preemptor: preemptor,
		logger:    klog.Background(),
	}, nil
}

// fill puts everything but pending pods into the cache, and returns those.
func (c *core) fill(input io.Reader) ([]*v1.Pod, error) {
	var pending []*v1.Pod
	decoder := clientscheme.Codecs.UniversalDeserializer()
	lines := bufio.NewScanner(input)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		object, _, err := decoder.Decode(lines.Bytes(), nil, nil)
		if err != nil {
			return nil, err
		}
		switch o := object.(type) {
		case *v1.Node:
			c.scheduler.Cache.AddNode(c.logger, o)
		case *policy.PodDisruptionBudget:
			c.budgets = append(c.budgets, o)
		case *v1.Pod:
			if o.Spec.NodeName == "" {
				pending = append(pending, o)
			} else if err := c.scheduler.Cache.AddPod(c.logger, o); err != nil {
				return nil, err
			}
		default:
			return nil, fmt.Errorf("a %T has no place here", object)
		}
	}
	return pending, lines.Err()
}

// schedule decides one pod, with preemption when nothing else helps.
func (c *core) schedule(ctx context.Context, pod *v1.Pod, r *result) error {
	node, state, err := c.decide(ctx, pod)
	if unfit := (*framework.FitError)(nil); errors.As(err, &unfit) {
		chosen, err := c.preempt(ctx, state, pod, unfit)
		if err != nil {
			return err
		}
		if chosen == nil {
			r.Failed++
			return nil
		}
		for _, victim := range chosen.Victims().Pods {
			if err := c.scheduler.Cache.RemovePod(c.logger, victim); err != nil {
				return err
			}
		}
		r.Preempted++
		r.Victims += len(chosen.Victims().Pods)
		pod = pod.DeepCopy()
		pod.Status.NominatedNodeName = chosen.Name()
		info, err := framework.NewPodInfo(pod)
		if err != nil {
			return err
		}
		c.framework.AddNominatedPod(c.logger, info, &fwk.NominatingInfo{
			NominatedNodeName: chosen.Name(), NominatingMode: fwk.ModeOverride,
		})
		node, _, err = c.decide(ctx, pod)
		if err != nil {
			return err
		}
		c.framework.DeleteNominatedPodIfExists(pod)
	} else if err != nil {
		return err
	}
	r.Placed++
	placed := pod.DeepCopy()
	placed.Spec.NodeName = node
	return c.scheduler.Cache.AssumePod(c.logger, placed)
}

func (c *core) decide(ctx context.Context, pod *v1.Pod) (string, fwk.CycleState, error) {
	if err := c.scheduler.Cache.UpdateSnapshot(c.logger, c.snapshot); err != nil {
		return "", nil, err
	}
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		return "", nil, err
	}
	state := framework.NewCycleState()
	decision, err := c.scheduler.SchedulePod(ctx, c.framework, state, &framework.QueuedPodInfo{PodInfo: info})
	return decision.SuggestedHost, state, err
}

func (c *core) preempt(ctx context.Context, state fwk.CycleState, pod *v1.Pod, unfit *framework.FitError) (preemption.Candidate, error) {
	statuses := unfit.Diagnosis.NodeToStatus
	if eligible, _ := c.preemptor.PodEligibleToPreemptOthers(ctx, pod, statuses.Get("")); !eligible {
		return nil, nil
	}
	nodes, err := statuses.NodesForStatusCode(c.snapshot.NodeInfos(), fwk.Unschedulable)
	if err != nil || len(nodes) == 0 {
		return nil, err
	}
	offset, count := c.preemptor.GetOffsetAndNumCandidates(int32(len(nodes)))
	found, _, err := c.preemptor.Evaluator.DryRunPreemption(ctx, state, pod, nodes, c.budgets, offset, count)
	if len(found) == 0 {
		return nil, err
	}
	return c.preemptor.Evaluator.SelectCandidate(ctx, found), nil
}
