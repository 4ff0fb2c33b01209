# A boot sector that does what every boot loader and kernel must: real mode,
# protected mode with iret and a far return, paging, long mode with iretq. It
# says a letter on the first serial port at each step, then "64 ok". A KVM that
# cannot carry guests (a nested one, say) stops on the way.
#
# Make probe.bin with
#   as --64 -o probe.o probe.asm && ld -Ttext 0x7c00 --oformat binary -o probe.bin probe.o
	.code16
	.globl	_start
_start:	cli
	xorw	%ax, %ax
	movw	%ax, %ds
	movw	%ax, %es
	movw	%ax, %ss
	movw	$0x7c00, %sp
	movw	$0x3f8, %dx
	movb	$'r', %al
	outb	%al, %dx
# three page tables at 0x1000: one 2 MiB page maps the first 2 MiB onto themselves
	movw	$0x1000, %di
	movw	$0x1800, %cx
	xorw	%ax, %ax
	rep stosw
	movw	$0x2003, 0x1000
	movw	$0x3003, 0x2000
	movw	$0x0083, 0x3000
	lgdt	gdtr
	movl	%cr0, %eax
	orb	$1, %al
	movl	%eax, %cr0
	ljmpl	$0x18, $prot
	.code32
prot:	movw	$0x10, %ax
	movw	%ax, %ds
	movw	%ax, %es
	movw	%ax, %ss
	movl	$0x7c00, %esp
	movw	$0x3f8, %dx
	movb	$'p', %al
	outb	%al, %dx
	pushfl
	pushl	$0x18
	pushl	$1f
	iretl
1:	movb	$'i', %al
	outb	%al, %dx
	pushl	$0x18
	pushl	$1f
	lretl
1:	xorl	%eax,%eax
	cpuid
	movw	$0x3f8, %dx
	movb	$'c', %al
	outb	%al, %dx
	movl	$0x20, %eax		# PAE
	movl	%eax, %cr4
	movl	$0x1000, %eax
	movl	%eax, %cr3
	movl	$0xc0000080, %ecx	# EFER
	rdmsr
	orl	$0x100, %eax		# LME
	wrmsr
	movl	%cr0, %eax
	orl	$0x80000000, %eax	# PG
	movl	%eax, %cr0
	ljmp	$8, $long
	.code64
long:	movw	$0x10, %ax
	movw	%ax, %ds
	movw	%ax, %es
	movw	%ax, %ss
	movw	$0x3f8, %dx
	movb	$'l', %al
	outb	%al, %dx
	movq	%rsp, %rax
	pushq	$0x10
	pushq	%rax
	pushfq
	pushq	$8
	pushq	$1f
	iretq
1:
	movq	$0x0a6b6f203436, %rbx	# "64 ok\n"
	movw	$0x3f8, %dx
1:	movb	%bl, %al
	outb	%al, %dx
	shrq	$8, %rbx
	jnz	1b
2:	hlt
	jmp	2b
	.balign	8
gdt:	.quad	0
	.quad	0x00209a0000000000	# code, 64 bits
	.quad	0x00cf92000000ffff	# data
	.quad	0x00cf9a000000ffff	# code, 32 bits
gdtr:	.word	gdtr - gdt - 1
	.long	gdt
	.org	510
	.word	0xaa55
