package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// lint is the one task of ./task test that has no tests, and keeps no results.
const lint = "lint"

// job is a task with the environment variables that it gets.
type job struct {
	task           string
	variables      []string
	withoutResults bool // it need not keep any
}

// Which tests a task runs: deploy/with --only, and packages in place of all. Those of the caller's environment do not reach a job.
const (
	onlyVariable     = "STRONGROOM_TEST_ONLY"
	packagesVariable = "STRONGROOM_TEST_PACKAGES"
)

// environment is that of the job.
func (j job) environment() []string {
	own := []string{onlyVariable + "=", packagesVariable + "="}
	if backEnd, ok := strings.CutPrefix(j.task, "integration:"); ok {
		own = append(own, "STRONGROOM_TEST_BACKEND="+backEnd)
	}
	return slices.Concat(os.Environ(), own, j.variables) // the last one counts
}

// jobsOf gives the jobs of tasks.
func jobsOf(tasks ...string) (jobs []job) {
	for _, task := range tasks {
		jobs = append(jobs, job{task: task, withoutResults: task == lint})
	}
	return jobs
}

// stage is a task that was run.
type stage struct {
	suite
	err   error
	took  time.Duration
	tests bool // it kept results
}

// runStages runs each job to its end, its task as the last argument of a command, and reads the results that it kept in the folder. A signal
// ends the task that runs, and no other is started.
func runStages(folder string, command []string, jobs []job) (stages []stage, err error) {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	for _, j := range jobs {
		name := j.task[strings.LastIndex(j.task, ":")+1:]
		file := filepath.Join(folder, name+".json")
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) { // of an earlier run
			return nil, err
		}
		s := stage{suite: suite{name: name}}
		began := time.Now()
		stopped, err := runTask(signals, append(slices.Clone(command), j.task), j.environment())
		s.err, s.took = err, time.Since(began)
		if stopped {
			return nil, fmt.Errorf("stopped during %s", j.task)
		}
		results, err := readSuite(file)
		switch {
		case err == nil:
			s.suite, s.tests = results, true
		case !errors.Is(err, fs.ErrNotExist):
			s.err = errors.Join(s.err, fmt.Errorf("%s: %w", file, err))
		case s.err == nil && !j.withoutResults:
			s.err = errors.New("it ran no tests")
		}
		stages = append(stages, s)
	}
	return stages, nil
}

// runTask runs a command to its end. It passes signals on to all processes of the command, which has a process group of its own:
// task itself passes none on.
func runTask(signals <-chan os.Signal, command, environment []string) (stopped bool, err error) {
	c := exec.Command(command[0], command[1:]...)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	c.Env = environment
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.Start(); err != nil {
		return false, err
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	for {
		select {
		case err := <-ended:
			return stopped, err
		case sig := <-signals:
			stopped = true
			_ = syscall.Kill(-c.Process.Pid, sig.(syscall.Signal)) // they may have ended just now
		}
	}
}
